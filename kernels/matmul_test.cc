#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/test_matmul.h"

namespace suture {
namespace {

TEST(MatmulTest, WithoutBiasIsTheSameProduct) {
  for (MatmulPath path : {MatmulPath::kPrefill, MatmulPath::kDecode}) {
    Problem problem(DType::kQ4_K, 40, 512, 3);
    const auto plain = problem.run(best_isa(), 1, path, 0, 3, false);
    std::fill(problem.bias.begin(), problem.bias.end(), 0.0f);
    EXPECT_EQ(plain, problem.run(best_isa(), 1, path, 0, 3));
  }
}

TEST(MatmulTest, ARowsBitsDependOnThatRowAlone) {
  constexpr int64_t kRows = 29;
  for (DType dtype : kWeightTypes) {
    const Problem problem(dtype, 133, cols_of(dtype).back(), kRows);
    for (Isa isa : isas_here()) {
      for (MatmulPath path : {MatmulPath::kPrefill, MatmulPath::kDecode}) {
        const auto all = problem.run(isa, 1, path, 0, kRows);
        for (int threads : {1, 3}) {
          // One to a few tiles of each kernel, whole and in part, from different rows on.
          for (auto [from, n] : {std::pair<int64_t, int64_t>{7, 1},
                                 {28, 1},
                                 {5, 2},
                                 {1, 3},
                                 {3, 4},
                                 {10, 5},
                                 {0, 12},
                                 {2, 13},
                                 {0, kRows}}) {
            const auto some = problem.run(isa, threads, path, from, n);
            ASSERT_TRUE(same_bits(some.data(), all.data() + from * problem.rows, some.size()))
                << dtype_name(dtype) << " " << isa_name(isa) << " path " << static_cast<int>(path)
                << " threads " << threads << " rows " << from << " + " << n;
          }
        }
      }
    }
  }
}

TEST(MatmulTest, ZeroRowsOfXQuantiseToZero) {
  Problem problem(DType::kQ6_K, 8, 256, 2);
  std::fill(problem.x.begin(), problem.x.end(), 0.0f);
  for (Isa isa : isas_here()) {
    const auto out = problem.run(isa, 1, MatmulPath::kDecode, 0, 2);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], problem.bias[i % 8]);
  }
}

// The most extreme bytes: 16-bit sums of products must not saturate.
TEST(MatmulTest, LargestQuantisedValuesDoNotSaturate) {
  for (DType dtype : kWeightTypes) {
    if (!is_quantised(dtype)) continue;
    for (std::byte fill : {std::byte{0}, std::byte{0x80}, std::byte{0xff}}) {
      Problem problem(dtype, 1, 256, 1);
      const int64_t block_bytes = dtype_info(dtype).block_bytes;
      std::fill(problem.blocks.begin(), problem.blocks.end(), fill);
      const uint16_t one = half_of(1.0f);
      for (int64_t at = 0; at < std::ssize(problem.blocks); at += block_bytes) {
        for (int64_t offset : half_offsets(dtype)) {
          std::memcpy(problem.blocks.data() + at + offset, &one, 2);
        }
      }
      ASSERT_TRUE(dequantise(dtype, problem.blocks.data(), 256, problem.w.data()).has_value());
      problem.pack();
      std::fill(problem.x.begin(), problem.x.end(), -127.0f);
      double expected = problem.bias[0];
      for (float w : problem.w) expected += -127.0 * w;
      for (Isa isa : isas_here()) {
        const auto out = problem.run(isa, 1, MatmulPath::kDecode, 0, 1);
        EXPECT_NEAR(out[0], expected, 1e-5 * (std::abs(expected) + 256 * 127 * 31))
            << dtype_name(dtype) << " " << isa_name(isa) << " fill " << static_cast<int>(fill);
      }
    }
  }
}

// ---- Several matrices with the same x ----

TEST(MatmulTest, PartsOfAGroupHaveTheBitsOfSingleProducts) {
  const Problem big(DType::kQ4_K, 133, 768, 5), small(DType::kQ6_K, 40, 768, 5);
  const Problem plain(DType::kF16, 17, 768, 5);
  for (MatmulPath path : {MatmulPath::kPrefill, MatmulPath::kDecode}) {
    for (int threads : {1, 3}) {
      std::vector<float> outs[3];
      std::vector<MatmulPart> parts;
      for (const Problem* p : {&big, &small, &plain}) {
        std::vector<float>& out = outs[parts.size()];
        out.resize(static_cast<size_t>(5 * p->rows));
        parts.push_back({p->weights(), p->bias.data(), out.data()});
      }
      CpuStream stream(threads, best_isa());
      ASSERT_TRUE(matmul(stream, MatmulGroupArgs{big.x.data(), parts, 5, path}).has_value());
      const auto single = [&](const Problem& p) {
        Problem same = p;
        same.x = big.x;
        return same.run(best_isa(), 1, path, 0, 5);
      };
      EXPECT_EQ(outs[0], single(big));
      EXPECT_EQ(outs[1], single(small));
      EXPECT_EQ(outs[2], single(plain));
    }
  }
}

TEST(MatmulTest, RefusesGroupsThatDoNotFit) {
  const Problem a(DType::kQ4_K, 16, 256, 1), b(DType::kQ4_K, 16, 512, 1);
  std::vector<float> out(16);
  CpuStream stream(1, best_isa());
  const MatmulPart first = {a.weights(), nullptr, out.data()};
  const MatmulPart second = {b.weights(), nullptr, out.data()};
  const auto run = [&](const std::vector<MatmulPart>& parts) {
    return matmul(stream, MatmulGroupArgs{a.x.data(), parts, 1, MatmulPath::kDecode}).has_value();
  };
  EXPECT_TRUE(run({first}));
  EXPECT_FALSE(run({}));
  EXPECT_FALSE(run({first, second}));
  EXPECT_FALSE(run(std::vector<MatmulPart>(kMaxMatmulParts + 1, first)));
}

// ---- Arguments that do not fit ----

TEST(MatmulTest, RefusesWhatDoesNotFit) {
  const Problem problem(DType::kQ4_K, 4, 256, 2);
  std::vector<float> out(8);
  CpuStream stream(1, best_isa());
  const MatmulArgs good = {.x = problem.x.data(),
                           .w = {DType::kQ4_K, problem.blocks.data(), 4, 256},
                           .out = out.data(),
                           .n_rows = 2,
                           .path = MatmulPath::kDecode};
  ASSERT_TRUE(matmul(stream, good).has_value());
  const auto refused = [&](auto change) {
    MatmulArgs args = good;
    change(args);
    return !matmul(stream, args).has_value();
  };
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.w.cols = 255; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.w.cols = 0; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.w.cols = -256; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.w.rows = -1; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.w.rows = int64_t{1} << 60; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.w.cols = int64_t{1} << 62; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.n_rows = -1; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.n_rows = int64_t{1} << 60; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.x = nullptr; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.out = nullptr; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.w.data = nullptr; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.w.dtype = DType::kI64; }));
  EXPECT_TRUE(refused([](MatmulArgs& a) { a.path = static_cast<MatmulPath>(7); }));
  EXPECT_FALSE(refused([](MatmulArgs& a) { a.n_rows = 0; }));
}

}  // namespace
}  // namespace suture
