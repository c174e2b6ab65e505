#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_matmul.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cpu/prefill.h"
#include "kernels/packed_weights.h"
#include "kernels/test_amx_kernels.h"

namespace suture {
namespace {

constexpr DType kWeightTypes[] = {DType::kF32,  DType::kF16,  DType::kBf16, DType::kQ4_0,
                                  DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                  DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K,
                                  DType::kQ6_K, DType::kIq4Nl};

std::vector<Isa> isas_here() {
  std::vector<Isa> isas;
  for (Isa isa : kAllIsas) {
    if (isa <= best_isa()) isas.push_back(isa);
  }
  return isas;
}

template <typename T>
std::vector<T> read_file(const std::string& name) {
  std::ifstream file(std::string(SUTURE_TEST_DATA_DIR) + "/quants/" + name, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(bytes.empty()) << name;
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

bool same_bits(const float* a, const float* b, size_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

// ---- Problems: random weights of any type, with their values in float32 ----

uint16_t half_of(float value) {  // for normal halves only
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | (((bits >> 13) - (112u << 10)) & 0x7fff));
}

// Where a block holds half precision numbers.
std::vector<int64_t> half_offsets(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kIq4Nl:
    case DType::kQ8_0: return {0};
    case DType::kQ2_K: return {80, 82};
    case DType::kQ3_K: return {108};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K: return {0, 2};
    case DType::kQ6_K: return {208};
    default: return {};
  }
}

constexpr float kLargestScale = 0.1f;

struct Problem {
  DType dtype;
  int64_t rows, cols, n_rows;
  std::vector<std::byte> blocks;
  std::vector<std::byte> tiles;  // the same packed, if the type is
  std::vector<float> w;          // [rows][cols]
  std::vector<float> x;          // [n_rows][cols]
  std::vector<float> bias;       // [rows]

  Problem(DType type, int64_t n_features, int64_t n_cols, int64_t n)
      : dtype(type), rows(n_features), cols(n_cols), n_rows(n) {
    std::mt19937 random(static_cast<uint32_t>(1000 * static_cast<int>(dtype) + cols));
    std::normal_distribution<float> normal;
    blocks.resize(static_cast<size_t>(dtype_bytes(dtype, rows * cols).value()));
    for (std::byte& b : blocks) b = static_cast<std::byte>(random());
    const DTypeInfo& info = dtype_info(dtype);
    for (int64_t at = 0; at < std::ssize(blocks); at += info.block_bytes) {
      std::byte* block = blocks.data() + at;
      for (int64_t offset : half_offsets(dtype)) {
        const float size = std::min(0.01f + 0.02f * std::abs(normal(random)), kLargestScale);
        const uint16_t scale = half_of(std::copysign(size, normal(random)));
        std::memcpy(block + offset, &scale, 2);
      }
      const float value = normal(random);
      if (dtype == DType::kF32) std::memcpy(block, &value, 4);
      if (dtype == DType::kBf16) std::memcpy(block, reinterpret_cast<const char*>(&value) + 2, 2);
    }
    pack();
    w.resize(static_cast<size_t>(rows * cols));
    EXPECT_TRUE(dequantise(dtype, blocks.data(), rows * cols, w.data()).has_value());
    x.resize(static_cast<size_t>(n_rows * cols));
    for (float& value : x) value = normal(random);
    bias.resize(static_cast<size_t>(rows));
    for (float& value : bias) value = normal(random);
  }

  void pack() {
    if (!is_packable(dtype)) return;
    tiles.resize(static_cast<size_t>(packed_bytes(dtype, rows, cols).value()));
    const WeightView matrix = {dtype, blocks.data(), rows, cols};
    EXPECT_TRUE(pack_tiles(matrix, 0, (rows + kPackedRows - 1) / kPackedRows, tiles.data()));
  }

  // What the kernels read: tiles, or rows where there are none.
  WeightView weights() const {
    return tiles.empty() ? in_rows()
                         : WeightView{dtype, tiles.data(), rows, cols, WeightLayout::kTiles};
  }
  WeightView in_rows() const { return {dtype, blocks.data(), rows, cols}; }

  // First `n` rows from row `from` on: [n][rows].
  std::vector<float> run(Isa isa, int threads, MatmulPath path, int64_t from, int64_t n,
                         bool with_bias = true) const {
    return run(isa, threads, path, from, n, with_bias ? bias.data() : nullptr, weights());
  }

  std::vector<float> run(Isa isa, int threads, MatmulPath path, int64_t from, int64_t n,
                         const float* some_bias, const WeightView& view) const {
    std::vector<float> out(static_cast<size_t>(n * rows), -1e30f);
    CpuStream stream(threads, isa);
    const Status status = matmul(stream, {.x = x.data() + from * cols,
                                          .w = view,
                                          .bias = some_bias,
                                          .out = out.data(),
                                          .n_rows = n,
                                          .path = path});
    EXPECT_TRUE(status.has_value()) << status.error().message();
    return out;
  }

  // The same for a prompt, with the kernels for AMX over emulated tiles.
  std::vector<float> run_emulated(int threads, int64_t from, int64_t n) const {
    std::vector<float> out(static_cast<size_t>(n * rows), -1e30f);
    CpuStream stream(threads, Isa::kScalar);
    const MatmulPart part = {weights(), bias.data(), out.data()};
    EXPECT_TRUE(prefill_with(stream, emulated_amx_kernels(),
                             {.x = x.data() + from * cols, .parts = {&part, 1}, .n_rows = n}));
    return out;
  }
};

// Columns to try: below, at and beyond the units in which the kernels work.
std::vector<int64_t> cols_of(DType dtype) {
  if (!is_quantised(dtype)) return {1, 7, 33, 64, 300, 521};
  if (dtype_info(dtype).block_elements == 32) return {32, 96, 256, 288, 544, 1056};
  return {256, 768};
}

// ---- Conversion ----

TEST(DequantiseTest, MatchesGgufPythonBitForBit) {
  for (DType dtype : kWeightTypes) {
    if (dtype == DType::kF32) continue;  // nothing to convert
    const std::string name(dtype_name(dtype));
    const auto blocks = read_file<std::byte>(name + ".bin");
    const auto expected = read_file<float>(name + ".f32");
    ASSERT_EQ(dtype_bytes(dtype, std::ssize(expected)), std::ssize(blocks)) << name;
    std::vector<float> values(expected.size());
    ASSERT_TRUE(dequantise(dtype, blocks.data(), std::ssize(values), values.data()).has_value());
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], expected[i]) << name << i;
    for (Isa isa : isas_here()) {
      std::vector<float> others(expected.size());
      matmul_kernels(isa).dequantise[static_cast<size_t>(dtype)](blocks.data(), std::ssize(others),
                                                                 others.data());
      EXPECT_TRUE(same_bits(values.data(), others.data(), values.size()))
          << name << " " << isa_name(isa);
    }
  }
}

TEST(DequantiseTest, EveryHalfIsTheSameInEveryTarget) {
  std::vector<uint16_t> halves;
  for (uint32_t h = 0; h < 0x10000; ++h) {
    if ((h & 0x7fff) <= 0x7c00) halves.push_back(static_cast<uint16_t>(h));  // all but NaN
  }
  const auto* source = reinterpret_cast<const std::byte*>(halves.data());
  std::vector<float> values(halves.size());
  ASSERT_TRUE(dequantise(DType::kF16, source, std::ssize(halves), values.data()).has_value());
  for (size_t i = 0; i < halves.size(); ++i) {
    const int exponent = halves[i] >> 10 & 31, fraction = halves[i] & 1023;
    const double magnitude = exponent == 31  ? INFINITY
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(values[i], (halves[i] & 0x8000) != 0 ? -magnitude : magnitude) << halves[i];
  }
  for (Isa isa : isas_here()) {
    std::vector<float> others(halves.size());
    matmul_kernels(isa).dequantise[static_cast<size_t>(DType::kF16)](source, std::ssize(halves),
                                                                     others.data());
    EXPECT_TRUE(same_bits(values.data(), others.data(), values.size())) << isa_name(isa);
  }
}

TEST(DequantiseTest, RefusesPartBlocksAndNonWeights) {
  std::byte bytes[64] = {};
  float values[64];
  EXPECT_FALSE(dequantise(DType::kQ8_0, bytes, 16, values).has_value());
  EXPECT_FALSE(dequantise(DType::kQ4_K, bytes, -256, values).has_value());
  EXPECT_FALSE(dequantise(DType::kQ4_0, nullptr, 32, values).has_value());
  EXPECT_EQ(dequantise(DType::kI32, bytes, 4, values).error().code, ErrorCode::kUnsupported);
}

// ---- The product against float64 ----

// The activations as decoding sees them: per 32 values q = round(x * 127 / max), scale max / 127.
std::vector<float> rounded_to_8_bits(const std::vector<float>& x) {
  std::vector<float> result(x.size());
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    float most = 0;
    for (size_t i = begin; i < begin + 32; ++i) most = std::max(most, std::abs(x[i]));
    for (size_t i = begin; i < begin + 32; ++i) {
      result[i] = std::nearbyint(x[i] * (127 / most)) * (most / 127);
    }
  }
  return result;
}

std::vector<float> rounded_to_bf16(const std::vector<float>& x) {
  std::vector<float> result(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double magnitude = std::abs(double{x[i]});
    const double step = magnitude > 0 ? std::ldexp(1.0, std::ilogb(magnitude) - 7) : 1;
    result[i] = static_cast<float>(std::nearbyint(x[i] / step) * step);  // ties to even
  }
  return result;
}

// What a type may subtract from q * scale: both parts enter the sums, and S below counts both.
double largest_minimum(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1: return kLargestScale;
    case DType::kQ2_K: return 15 * kLargestScale;
    case DType::kQ4_K:
    case DType::kQ5_K: return 63 * kLargestScale;
    default: return 0;
  }
}

// The way in which a product is computed.
enum class Products { kFloat, kBf16, kInt8 };

Products products_of(DType dtype, MatmulPath path, Isa isa) {
  if (path == MatmulPath::kDecode) return is_quantised(dtype) ? Products::kInt8 : Products::kFloat;
  if (dtype == DType::kF32 || isa <= Isa::kAvx512) return Products::kFloat;
  if (isa == Isa::kAmx) return Products::kBf16;
  if (is_quantised(dtype)) return Products::kInt8;
  return isa == Isa::kAvx512Bf16 ? Products::kBf16 : Products::kFloat;
}

// Bounds on |result - exact| for one element, as multiples of S = sum |x w| and u = 2^-24: what
// goes through n roundings is off by at most n u of itself, to first order. Exact is the product
// of what is left of x and w when they have been rounded for it.
double tolerance(Products products, MatmulPath path, int64_t cols, double sum_of_products) {
  const double u = std::ldexp(1.0, -24);
  const auto n = static_cast<double>(cols);
  switch (products) {
    // Products within a group, or half of one, are exact; a chain over them; five roundings in the
    // factors; bias.
    case Products::kInt8: return (n / 16 + 10) * u * sum_of_products;
    // Products are exact; a chain over a stretch of 512, then one addition for each; bias.
    case Products::kBf16: return (std::min(n, 512.0) + n / 512 + 3) * u * sum_of_products;
    case Products::kFloat: break;
  }
  // A chain for each of 32 lanes, five additions to join them; product and bias.
  if (path == MatmulPath::kDecode) return (n / 32 + 8) * u * sum_of_products;
  // 256 products in one chain, then one addition for each 256; product and bias.
  return (std::min(n, 256.0) + n / 256 + 3) * u * sum_of_products;
}

struct Operands {
  std::vector<float> x, w;
};

Operands rounded_for(Products products, const Problem& p) {
  switch (products) {
    case Products::kInt8: return {rounded_to_8_bits(p.x), p.w};
    case Products::kBf16: return {rounded_to_bf16(p.x), rounded_to_bf16(p.w)};
    case Products::kFloat: break;
  }
  return {p.x, p.w};
}

void expect_close(const Problem& p, Products products, MatmulPath path,
                  const std::vector<float>& out, int64_t n_rows) {
  const Operands operands = rounded_for(products, p);
  // Where integers are multiplied, both parts of a weight enter the sums.
  const double minimum = products == Products::kInt8 ? largest_minimum(p.dtype) : 0;
  for (int64_t r = 0; r < n_rows; ++r) {
    for (int64_t m = 0; m < p.rows; ++m) {
      double expected = p.bias[static_cast<size_t>(m)];
      double magnitude = std::abs(expected);
      double lost = 0;  // what rounding may cost: half a step of each value
      for (int64_t k = 0; k < p.cols; ++k) {
        const auto at_w = static_cast<size_t>(m * p.cols + k);
        const auto at_x = static_cast<size_t>(r * p.cols + k);
        const double w = operands.w[at_w], x = operands.x[at_x];
        expected += w * x;
        magnitude += std::abs(x) * (std::abs(w) + 2 * minimum);
        lost += std::abs(w * x - double{p.w[at_w]} * double{p.x[at_x]});
      }
      const double got = out[static_cast<size_t>(r * p.rows + m)];
      ASSERT_NEAR(got, expected, tolerance(products, path, p.cols, magnitude))
          << "cols " << p.cols << " row " << r << " feature " << m;
      ASSERT_LE(lost, 0.02 * magnitude);
    }
  }
}

TEST(MatmulTest, EveryTypePathAndTargetMatchesFloat64) {
  constexpr int64_t kRows = 19;  // of x: more than a tile of any kernel
  for (DType dtype : kWeightTypes) {
    for (int64_t cols : cols_of(dtype)) {
      const Problem problem(dtype, 133, cols, kRows);
      for (Isa isa : isas_here()) {
        for (MatmulPath path : {MatmulPath::kPrefill, MatmulPath::kDecode}) {
          SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << isa_name(isa) << " path "
                                          << static_cast<int>(path));
          expect_close(problem, products_of(dtype, path, isa), path,
                       problem.run(isa, 2, path, 0, kRows), kRows);
        }
      }
    }
  }
}

TEST(MatmulTest, PromptsReadRowsAndTilesToTheSameBits) {
  constexpr int64_t kRows = 3;
  for (DType dtype : kWeightTypes) {
    const Problem problem(dtype, 133, cols_of(dtype).back(), kRows);
    for (Isa isa : isas_here()) {
      const auto run = [&](const WeightView& view) {
        return problem.run(isa, 1, MatmulPath::kPrefill, 0, kRows, problem.bias.data(), view);
      };
      EXPECT_EQ(run(problem.weights()), run(problem.in_rows()))
          << dtype_name(dtype) << " " << isa_name(isa);
    }
  }
}

// The kernels for AMX with its instructions emulated: layout and loops, on any machine.
TEST(MatmulTest, EmulatedTilesMatchFloat64) {
  for (DType dtype : kWeightTypes) {
    for (int64_t cols : cols_of(dtype)) {
      for (int64_t n_rows : {1, 16, 19, 33}) {
        const Problem problem(dtype, 53, cols, n_rows);
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " rows " << n_rows);
        expect_close(problem, Products::kBf16, MatmulPath::kPrefill,
                     problem.run_emulated(2, 0, n_rows), n_rows);
      }
    }
  }
}

TEST(MatmulTest, EmulatedTilesGiveARowTheSameBitsInEveryBatch) {
  constexpr int64_t kRows = 35;
  const Problem problem(DType::kQ4_K, 133, 768, kRows);
  const auto all = problem.run_emulated(1, 0, kRows);
  for (int threads : {1, 3}) {
    for (int64_t n = 1; n <= 17; ++n) {
      const auto some = problem.run_emulated(threads, 17, n);
      ASSERT_TRUE(same_bits(some.data(), all.data() + 17 * problem.rows, some.size()))
          << "threads " << threads << " rows " << n;
    }
  }
}

// A row whose largest value would leave nothing of its neighbours in 8 bits keeps them.
TEST(MatmulTest, PromptsKeepWhatLiesBesideOutliers) {
  constexpr int64_t kRows = 18, kCols = 768;
  Problem problem(DType::kQ4_K, 40, kCols, kRows);
  for (int64_t r = 0; r < kRows; ++r) {
    float* x = problem.x.data() + r * kCols;
    std::fill(x + 32, x + kCols, 0.0f);
    if (r % 2 == 1) x[7] = 1000;
  }
  for (Isa isa : isas_here()) {
    if (products_of(problem.dtype, MatmulPath::kPrefill, isa) != Products::kInt8) continue;
    const auto out = problem.run(isa, 2, MatmulPath::kPrefill, 0, kRows);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t m = 0; m < problem.rows; ++m) {
        double expected = problem.bias[static_cast<size_t>(m)], tolerance = 1e-4;
        for (int64_t k = 0; k < 32; ++k) {
          const double w = problem.w[static_cast<size_t>(m * kCols + k)];
          const double x = problem.x[static_cast<size_t>(r * kCols + k)];
          expected += w * x;
          // Half a step: of the second part, 1000 / 254 / 127, and of rows without an outlier.
          tolerance += 0.016 * std::abs(w) + 1e-6 * std::abs(w * x);
        }
        ASSERT_NEAR(out[static_cast<size_t>(r * problem.rows + m)], expected, tolerance)
            << isa_name(isa) << " row " << r << " feature " << m;
      }
    }
  }
}

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
