#include "launcher/bench/estimate.h"

#include <gtest/gtest.h>

#include <numeric>

namespace suture {
namespace {

// 1, 2, ... n, in an order that is not sorted: an order statistic is its own rank.
Estimate of_ranks(int n) {
  std::vector<double> values(static_cast<size_t>(n));
  std::iota(values.rbegin(), values.rend(), 1.0);
  return estimate(values);
}

TEST(EstimateTest, MedianIsTheMiddleOrTheMeanOfTheTwoMiddleOnes) {
  EXPECT_EQ(of_ranks(1).median, 1);
  EXPECT_EQ(of_ranks(5).median, 3);
  EXPECT_EQ(of_ranks(6).median, 3.5);
  EXPECT_EQ(of_ranks(6).count, 6);
}

// Ranks from published tables of the sign test's interval for the median (95 %).
TEST(EstimateTest, IntervalHasTheRanksOfTheSignTest) {
  const struct {
    int n, low, high;
  } table[] = {{6, 1, 6},   {8, 1, 8},   {9, 2, 8},    {10, 2, 9},   {12, 3, 10},  {15, 4, 12},
               {20, 6, 15}, {25, 8, 18}, {30, 10, 21}, {50, 18, 33}, {100, 40, 61}};
  for (const auto& row : table) {
    EXPECT_EQ(of_ranks(row.n).low, row.low) << row.n;
    EXPECT_EQ(of_ranks(row.n).high, row.high) << row.n;
  }
}

TEST(EstimateTest, FewValuesGiveTheirWholeRange) {
  for (int n = 1; n <= 5; ++n) {
    EXPECT_EQ(of_ranks(n).low, 1) << n;
    EXPECT_EQ(of_ranks(n).high, n) << n;
  }
  EXPECT_EQ(estimate({}).count, 0);
}

}  // namespace
}  // namespace suture
