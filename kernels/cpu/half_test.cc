#include "kernels/cpu/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace suture {
namespace {

TEST(HalfTest, EveryHalfComesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      ASSERT_EQ(float_to_half(value), half);
    }
  }
}

TEST(HalfTest, ValuesBetweenTwoHalvesGoToTheNearerOrToTheEvenOne) {
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = half_to_float(half);
    const float high = half_to_float(static_cast<uint16_t>(half + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(float_to_half(middle), half % 2 == 0 ? half : half + 1);
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), half);
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9f)), half + 1);
    ASSERT_EQ(float_to_half(-middle), float_to_half(middle) | 0x8000);
  }
}

}  // namespace
}  // namespace suture
