#include "launcher/eval/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace suture {
namespace {

// Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I, method 3.
TEST(StatisticsTest, WilsonIntervalsArePublishedOnes) {
  struct Published {
    int64_t successes, n;
    double low, high;
  };
  for (const auto& [successes, n, low, high] :
       {Published{81, 263, 0.2553, 0.3662}, Published{15, 148, 0.0624, 0.1605},
        Published{0, 20, 0.0000, 0.1611}, Published{1, 29, 0.0061, 0.1718}}) {
    const Interval interval = wilson_interval(successes, n);
    EXPECT_NEAR(interval.low, low, 5e-5) << successes;
    EXPECT_NEAR(interval.high, high, 5e-5) << successes;
  }
  EXPECT_EQ(wilson_interval(20, 20).high, 1.0);
  EXPECT_EQ(wilson_interval(0, 0).low, 0.0);
  EXPECT_EQ(wilson_interval(0, 0).high, 1.0);
}

// The mean of values that are 0 or 1 is a binomial count by itself: of 100 draws at 0.3, the exact
// 2.5 % and 97.5 % quantiles are 21 and 39.
TEST(StatisticsTest, BootstrapFindsTheQuantilesOfTheBinomial) {
  std::vector<double> values(100, 0.0);
  std::fill_n(values.begin(), 30, 1.0);
  const Interval interval = bootstrap_interval(values, 1, 40'000);
  EXPECT_NEAR(interval.low, 0.21, 1e-12);
  EXPECT_NEAR(interval.high, 0.39, 1e-12);
}

TEST(StatisticsTest, BootstrapDependsOnItsSeedOnly) {
  const std::vector<double> values = {1.5, 2.25, 9, -3, 4, 7.5, 0.125};
  const Interval first = bootstrap_interval(values, 7);
  const Interval again = bootstrap_interval(values, 7);
  EXPECT_EQ(first.low, again.low);
  EXPECT_EQ(first.high, again.high);
  const Interval other = bootstrap_interval(values, 7 + (uint64_t{1} << 32));
  EXPECT_NE(first.low, other.low);
  EXPECT_LT(first.low, first.high);
  EXPECT_EQ(bootstrap_interval({}, 1).high, 0);
  const std::vector<double> one = {2.5};
  EXPECT_EQ(bootstrap_interval(one, 1, 10).low, 2.5);
}

// Of equal wholes the ratio is a mean; wholes that weigh more count more.
TEST(StatisticsTest, RatiosAreResampledTogether) {
  const std::vector<double> parts = {1.5, 2.25, 9, -3, 4, 7.5, 0.125};
  const Interval mean = bootstrap_interval(parts, 7);
  const Interval ratio = bootstrap_ratio_interval(parts, std::vector<double>(7, 2.0), 7);
  EXPECT_NEAR(ratio.low, mean.low / 2, 1e-12);
  EXPECT_NEAR(ratio.high, mean.high / 2, 1e-12);
  const Interval same = bootstrap_ratio_interval(std::vector{3.0, 12.0}, std::vector{1.0, 4.0}, 7);
  EXPECT_DOUBLE_EQ(same.low, 3);
  EXPECT_DOUBLE_EQ(same.high, 3);
  const Interval nothing = bootstrap_ratio_interval(std::vector{1.0}, std::vector{0.0}, 7);
  EXPECT_FALSE(std::isfinite(nothing.high));
  EXPECT_EQ(bootstrap_ratio_interval({}, {}, 1).high, 0);
}

// Computed with exact fractions.
TEST(StatisticsTest, McNemarIsTheExactBinomial) {
  EXPECT_DOUBLE_EQ(mcnemar_exact({50, 1, 9, 40}), 0.021484375);
  EXPECT_DOUBLE_EQ(mcnemar_exact({0, 9, 1, 0}), 0.021484375);
  EXPECT_NEAR(mcnemar_exact({0, 5, 20, 0}), 0.004077315330505371, 1e-15);
  EXPECT_NEAR(mcnemar_exact({0, 300, 360, 0}), 0.02157234823197102, 1e-12);
  EXPECT_NEAR(mcnemar_exact({0, 1000, 1200, 0}), 2.1817026407914712e-05, 1e-14);
  EXPECT_EQ(mcnemar_exact({3, 10, 10, 3}), 1.0);
  EXPECT_EQ(mcnemar_exact({70, 0, 0, 30}), 1.0);
}

// Darwin's heights of cross- and self-fertilised maize in eighths of an inch. Fisher ("The design
// of experiments", 1935, section 21) counts 863 of 32,768 tosses on each side.
const std::vector<double> kDarwin = {49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48};

TEST(StatisticsTest, PermutationTestIsFishers) {
  EXPECT_DOUBLE_EQ(permutation_test(kDarwin, 1), 2 * 863 / 32768.0);
  std::vector<double> fractions;
  for (const double d : kDarwin) fractions.push_back(d * 0.1);  // equal sums, rounded differently
  EXPECT_DOUBLE_EQ(permutation_test(fractions, 1), 2 * 863 / 32768.0);
}

TEST(StatisticsTest, SignTestLeavesZerosOut) {
  EXPECT_NEAR(sign_test(kDarwin), 2 * (1 + 15 + 105) / 32768.0, 1e-15);
  const std::vector<double> with_zeros = {0, 1, 1, 0, 1, 1, 1, 1, 0};
  EXPECT_DOUBLE_EQ(sign_test(with_zeros), 0.03125);
  EXPECT_EQ(sign_test({}), 1.0);
}

// With differences of one size the test is the sign test, whose exact value is known: 26 of 40.
TEST(StatisticsTest, DrawnTossesComeNearTheExactValue) {
  std::vector<double> differences(40, 1.0);
  std::fill_n(differences.begin(), 14, -1.0);
  const double drawn = permutation_test(differences, 3, 40'000);
  EXPECT_NEAR(drawn, 0.0806904677519924, 4 * std::sqrt(0.0807 * 0.9193 / 40'000));
  EXPECT_EQ(drawn, permutation_test(differences, 3, 40'000));
  const std::vector<double> all_positive(40, 1.0);
  EXPECT_EQ(permutation_test(all_positive, 3, 999), 0.001);
  EXPECT_EQ(permutation_test({}, 3), 1.0);
}

}  // namespace
}  // namespace suture
