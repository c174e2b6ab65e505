#include "kernels/kv_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/test_kv.h"
#include "kernels/test_targets.h"

namespace suture {
namespace {

TEST(KvRowsTest, GatherReturnsWhatWasAppendedHeadByHead) {
  std::mt19937 random(1);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    const KvShape shape{1, 3, 8, dtype};
    TestSequence sequence(shape, 100, random);
    constexpr int64_t kBegin = 5, kEnd = 97;
    std::vector<float> key(static_cast<size_t>((kEnd - kBegin) * sequence.width()));
    std::vector<float> value(key.size());
    const KvGatherArgs args{.key = key.data(),
                            .value = value.data(),
                            .begin = kBegin,
                            .end = kEnd,
                            .shape = shape,
                            .kv = sequence.view()};
    ASSERT_TRUE(kv_gather(*cpu_stream(2), args).has_value());
    size_t i = 0;
    for (int64_t head = 0; head < 3; ++head) {
      for (int64_t entry = kBegin; entry < kEnd; ++entry) {
        for (int64_t c = 0; c < 8; ++c, ++i) {
          const size_t source = static_cast<size_t>((entry * 3 + head) * 8 + c);
          ASSERT_EQ(key[i], sequence.key[source]) << dtype_name(dtype);
          ASSERT_EQ(value[i], sequence.value[source]) << dtype_name(dtype);
        }
      }
    }
  }
}

TEST(KvRowsTest, RowsLieWhereTheLayoutSays) {
  std::mt19937 random(2);
  const KvShape shape{1, 2, 4, DType::kF32};
  TestSequence sequence(shape, 40, random);
  const KvLayerView kv = sequence.view();
  const std::byte* block = kv.base + kv.block_ids[1] * (2 * 2 * 32 * 4 * sizeof(float));
  const float* floats = reinterpret_cast<const float*>(block);
  // Token 35 is row 3 of block 1; head 1; K first, then V.
  for (int64_t c = 0; c < 4; ++c) {
    EXPECT_EQ(floats[(1 * 32 + 3) * 4 + c],
              sequence.key[static_cast<size_t>((35 * 2 + 1) * 4 + c)]);
    EXPECT_EQ(floats[2 * 32 * 4 + (1 * 32 + 3) * 4 + c],
              sequence.value[static_cast<size_t>((35 * 2 + 1) * 4 + c)]);
  }
}

// Stores a row of one value and reads it back.
float through(DType dtype, float x) {
  constexpr int32_t kDim = 21;  // whole vectors and a rest
  const KvShape shape{1, 1, kDim, dtype};
  std::vector<std::byte> slab(static_cast<size_t>(shape.block_bytes()));
  const uint32_t block = 0;
  const KvLayerView kv{slab.data(), &block};
  const std::vector<float> row(kDim, x);
  std::vector<float> key(kDim), value(kDim);
  auto stream = cpu_stream(1);
  EXPECT_TRUE(kv_append(*stream, {row.data(), row.data(), 1, 7, shape, kv}).has_value());
  EXPECT_TRUE(kv_gather(*stream, {key.data(), value.data(), 7, 8, shape, kv}).has_value());
  for (size_t i = 0; i < kDim; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(key[i]), std::bit_cast<uint32_t>(value[i]));
    EXPECT_TRUE(key[i] == key[0] || (std::isnan(key[i]) && std::isnan(x))) << i;
  }
  return key[0];
}

void check_halves() {
  const float ulp = std::ldexp(1.0f, -10);
  EXPECT_EQ(through(DType::kF16, 1 + ulp / 2), 1.0f);
  EXPECT_EQ(through(DType::kF16, 1 + 3 * ulp / 2), 1 + 2 * ulp);
  EXPECT_EQ(through(DType::kF16, std::nextafter(1 + ulp / 2, 2.0f)), 1 + ulp);
  EXPECT_EQ(through(DType::kF16, -65504.0f), -65504.0f);
  EXPECT_EQ(through(DType::kF16, 65520.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(through(DType::kF16, std::ldexp(1.0f, -24)), std::ldexp(1.0f, -24));
  EXPECT_EQ(through(DType::kF16, std::ldexp(1.0f, -25)), 0.0f);
  EXPECT_TRUE(std::isnan(through(DType::kF16, std::nanf(""))));
}

TEST(KvRowsTest, HalvesRoundToNearestEven) { for_each_target(check_halves); }

TEST(KvRowsTest, BrainFloatsRoundToNearestEven) {
  const float ulp = std::ldexp(1.0f, -7);
  EXPECT_EQ(through(DType::kBf16, 1 + ulp / 2), 1.0f);
  EXPECT_EQ(through(DType::kBf16, 1 + 3 * ulp / 2), 1 + 2 * ulp);
  EXPECT_EQ(through(DType::kBf16, std::nextafter(1 + ulp / 2, 2.0f)), 1 + ulp);
  EXPECT_EQ(through(DType::kBf16, -std::numeric_limits<float>::max()),
            -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(through(DType::kBf16, std::bit_cast<float>(0x7f800001u))));
  EXPECT_TRUE(std::isnan(through(DType::kBf16, std::bit_cast<float>(0xffffffffu))));
}

TEST(KvRowsTest, RefusesArgumentsOutsideTheContract) {
  const KvShape shape{1, 1, 4, DType::kF16};
  std::vector<std::byte> slab(static_cast<size_t>(shape.block_bytes()));
  const uint32_t block = 0;
  const KvLayerView kv{slab.data(), &block};
  float row[4] = {};
  auto stream = cpu_stream(1);
  EXPECT_TRUE(kv_append(*stream, {row, row, 1, 0, shape, kv}).has_value());
  EXPECT_FALSE(kv_append(*stream, {row, row, 1, -1, shape, kv}).has_value());
  EXPECT_FALSE(kv_append(*stream, {row, nullptr, 1, 0, shape, kv}).has_value());
  EXPECT_FALSE(kv_append(*stream, {row, row, 1, 0, shape, {}}).has_value());
  EXPECT_FALSE(kv_append(*stream, {row, row, 1, 0, {1, 1, 4, DType::kI32}, kv}).has_value());
  EXPECT_FALSE(kv_gather(*stream, {row, row, 2, 1, shape, kv}).has_value());
  EXPECT_FALSE(kv_gather(*stream, {nullptr, row, 0, 1, shape, kv}).has_value());
}

}  // namespace
}  // namespace suture
