#include "kernels/embedding.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/test_kv.h"

namespace suture {
namespace {

TEST(EmbeddingTest, CopiesAndScalesRows) {
  std::mt19937 random(1);
  const auto table = random_values(random, 10 * 6);
  const WeightView view{DType::kF32, reinterpret_cast<const std::byte*>(table.data()), 10, 6};
  const std::vector<int32_t> ids = {9, 0, 9, 4};
  std::vector<float> out(ids.size() * 6);
  ASSERT_TRUE(embedding(*cpu_stream(2), view, ids.data(), 4, 3.0f, out.data()).has_value());
  for (size_t row = 0; row < ids.size(); ++row) {
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(out[row * 6 + i], table[static_cast<size_t>(ids[row]) * 6 + i] * 3);
    }
  }
}

TEST(EmbeddingTest, DequantisesBlocks) {
  // Two rows of one Q8_0 block each: an f16 scale, then 32 signed bytes.
  std::vector<uint8_t> table(2 * 34);
  const uint16_t half = 0x3800, quarter = 0x3400;
  std::memcpy(&table[0], &half, 2);
  std::memcpy(&table[34], &quarter, 2);
  for (size_t i = 0; i < 32; ++i) {
    table[2 + i] = static_cast<uint8_t>(i);
    table[36 + i] = static_cast<uint8_t>(0 - i);
  }
  const WeightView view{DType::kQ8_0, reinterpret_cast<const std::byte*>(table.data()), 2, 32};
  const std::vector<int32_t> ids = {1, 0};
  std::vector<float> out(64);
  ASSERT_TRUE(embedding(*cpu_stream(1), view, ids.data(), 2, 1.0f, out.data()).has_value());
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], -0.25f * static_cast<float>(i));
    EXPECT_EQ(out[32 + i], 0.5f * static_cast<float>(i));
  }
}

TEST(EmbeddingTest, RefusesArgumentsOutsideTheContract) {
  std::vector<float> table(12), out(12);
  WeightView view{DType::kF32, reinterpret_cast<const std::byte*>(table.data()), 3, 4};
  auto stream = cpu_stream(1);
  for (int32_t id : {-1, 3}) {
    const Status status = embedding(*stream, view, &id, 1, 1.0f, out.data());
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().what.find(std::to_string(id)), std::string::npos);
  }
  const int32_t id = 0;
  EXPECT_FALSE(embedding(*stream, view, nullptr, 1, 1.0f, out.data()).has_value());
  EXPECT_FALSE(embedding(*stream, view, &id, -1, 1.0f, out.data()).has_value());
  view.dtype = DType::kQ8_0;  // 4 columns are no whole block
  EXPECT_FALSE(embedding(*stream, view, &id, 1, 1.0f, out.data()).has_value());
}

}  // namespace
}  // namespace suture
