#include "base/checked_math.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>

namespace suture {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(CheckedMathTest, AddGivesNothingOnlyPastTheLargestValue) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_add(kMax, kMax), std::nullopt);
}

TEST(CheckedMathTest, MulGivesNothingOnlyPastTheLargestValue) {
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1),
            kMax - ((uint64_t{1} << 32) - 1));
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul(kMax, 0), 0u);
}

TEST(CheckedMathTest, ProductOfAllFactors) {
  EXPECT_EQ(checked_product({}), 1u);
  EXPECT_EQ(checked_product({3, 5, 7}), 105u);
}

TEST(CheckedMathTest, ProductThatOverflowsOnTheWayIsNothingEvenWhenAFactorIsZero) {
  EXPECT_EQ(checked_product({uint64_t{1} << 40, uint64_t{1} << 40, 0}), std::nullopt);
  EXPECT_EQ(checked_product({kMax, 2, 1}), std::nullopt);
}

}  // namespace
}  // namespace suture
