#include "kernels/quantise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/matmul.h"

namespace suture {
namespace {

std::vector<float> there_and_back(const std::vector<float>& values) {
  std::vector<std::byte> blocks(
      static_cast<size_t>(dtype_bytes(DType::kQ8_0, std::ssize(values)).value()));
  quantise_q8_0(values.data(), std::ssize(values), blocks.data());
  std::vector<float> back(values.size());
  EXPECT_TRUE(dequantise(DType::kQ8_0, blocks.data(), std::ssize(values), back.data()));
  return back;
}

// Half a step, and what the step loses as a float16 (11 bits) at 127 of them.
TEST(QuantiseTest, ValuesComeBackWithinHalfAStepOfTheirBlock) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> values(1024);
  for (float& value : values) value = normal(random);
  const std::vector<float> back = there_and_back(values);
  for (size_t block = 0; block < values.size(); block += 32) {
    float most = 0;
    for (size_t i = block; i < block + 32; ++i) most = std::max(most, std::abs(values[i]));
    const float bound = most / 127 * 0.5F + most * 0x1p-11F;
    for (size_t i = block; i < block + 32; ++i) EXPECT_NEAR(back[i], values[i], bound) << i;
  }
}

TEST(QuantiseTest, WhatTheBlockHoldsExactlyComesBackExactly) {
  std::vector<float> values(64, 0.0F);
  for (size_t i = 0; i < 32; ++i) values[i] = static_cast<float>(i * 8) - 127;
  values[31] = 127;
  EXPECT_EQ(there_and_back(values), values);
}

TEST(QuantiseTest, TinyBlocksBecomeZeros) {
  std::vector<float> values(32, 1e-30F);
  EXPECT_EQ(there_and_back(values), std::vector<float>(32, 0.0F));
}

// From a damaged file, say.
TEST(QuantiseTest, WhatIsNoNumberStaysInBounds) {
  std::vector<float> values(32, 1.0F);
  values[3] = std::nanf("");
  values[9] = INFINITY;
  std::vector<std::byte> blocks(34);
  quantise_q8_0(values.data(), 32, blocks.data());
  for (size_t i = 2; i < blocks.size(); ++i) {
    EXPECT_GE(static_cast<int8_t>(blocks[i]), -127);
    EXPECT_LE(static_cast<int8_t>(blocks[i]), 127);
  }
}

}  // namespace
}  // namespace suture
