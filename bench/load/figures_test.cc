#include "bench/load/figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace suture {
namespace {

TEST(LoadFiguresTest, QuantilesAreMeasuredValues) {
  std::vector<double> values(200);
  std::iota(values.rbegin(), values.rend(), 1.0);
  const Quantiles found = quantiles(values);
  EXPECT_EQ(found.count, 200u);
  EXPECT_EQ(found.p50, 100);
  EXPECT_EQ(found.p99, 198);
  EXPECT_EQ(quantiles({7}).p50, 7);
  EXPECT_EQ(quantiles({7}).p99, 7);
  EXPECT_EQ(quantiles({}).count, 0u);
}

TEST(LoadFiguresTest, JainsIndexOfKnownShares) {
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{3, 3, 3, 3}), 1);
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{5, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{1, 2}), 0.9);  // 9 / (2 * 5)
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{0, 0}), 1);
}

TEST(LoadFiguresTest, TheSlopeOfALineIsExact) {
  const std::vector<double> x = {0, 1, 2, 5};
  const std::vector<double> y = {7, 5, 3, -3};
  const Slope found = least_squares_slope(x, y);
  EXPECT_DOUBLE_EQ(found.slope, -2);
  EXPECT_NEAR(found.low, -2, 1e-12);
  EXPECT_NEAR(found.high, -2, 1e-12);
}

// By hand: slope 9/10, squared residuals 1.9, error of the slope sqrt(1.9 / 3 / 10); t(3) = 3.182.
TEST(LoadFiguresTest, TheIntervalOfAScatteredSlope) {
  const std::vector<double> x = {1, 2, 3, 4, 5};
  const std::vector<double> y = {1, 3, 2, 4, 5};
  const Slope found = least_squares_slope(x, y);
  EXPECT_NEAR(found.slope, 0.9, 1e-12);
  EXPECT_NEAR(found.high - found.slope, 3.182 * std::sqrt(1.9 / 3 / 10), 1e-3);
  EXPECT_NEAR(found.slope - found.low, found.high - found.slope, 1e-12);
  EXPECT_EQ(least_squares_slope(std::vector<double>{1, 2}, std::vector<double>{1, 2}).slope, 0);
}

}  // namespace
}  // namespace suture
