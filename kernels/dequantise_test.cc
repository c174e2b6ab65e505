#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/test_matmul.h"

namespace suture {
namespace {

template <typename T>
std::vector<T> read_file(const std::string& name) {
  std::ifstream file(std::string(SUTURE_TEST_DATA_DIR) + "/quants/" + name, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(bytes.empty()) << name;
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

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

}  // namespace
}  // namespace suture
