#include "launcher/transfer/transfer_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace suture {
namespace {

std::vector<float> logarithms(const std::vector<double>& probabilities) {
  std::vector<float> logs;
  for (const double p : probabilities) logs.push_back(static_cast<float>(std::log(p)));
  return logs;
}

// In the order of TransferArm: self, transferred, other text, text only, none, source.
PassageResult passage(const std::string& kind, const std::vector<double>& nll) {
  PassageResult passage{.kind = kind, .arms = {}};
  for (size_t i = 0; i < nll.size(); ++i)
    passage.arms[i] = ArmScore{.nll = nll[i], .kl = nll[i] / 10, .top1 = 0.5, .consistency = 0};
  return passage;
}

TEST(DivergenceTest, CountsWhatIsNotToldAsOne) {
  const double ln2 = std::log(2.0);
  // p = 1/2, 1/4 and 1/4 of the rest.
  const auto p = logarithms({0.5, 0.25});
  EXPECT_NEAR(divergence(p, p), 0, 1e-6);
  EXPECT_NEAR(divergence(p, logarithms({0.25, 0.5})), 0.25 * ln2, 1e-6);
  EXPECT_NEAR(divergence(p, logarithms({0.25, 0.25})), 0.25 * ln2, 1e-6);
  EXPECT_NEAR(divergence(p, logarithms({0.125, 0.125})), 1.25 * ln2 + 0.25 * std::log(1.0 / 3),
              1e-6);
}

TEST(DivergenceTest, StaysFiniteWhereNothingIsLeft) {
  const auto all = logarithms({0.75, 0.25});
  EXPECT_NEAR(divergence(all, all), 0, 1e-5);
  EXPECT_TRUE(std::isfinite(divergence(logarithms({0.5, 0.25}), all)));
  EXPECT_GT(divergence(logarithms({0.5, 0.25}), all), 1);
}

TEST(TransferSummaryTest, SharesAreOfMeansOverTexts) {
  const std::vector<PassageResult> passages = {passage("code", {1, 2, 4, 3, 5, 2.5}),
                                               passage("code", {2, 2, 3, 3, 4, 3.5}),
                                               passage("maths", {3, 5, 5, 5, 6, 6})};
  const TransferSummary all = summarise_transfer(passages, 1);
  EXPECT_EQ(all.n, 3);
  EXPECT_DOUBLE_EQ(all.nll_of(TransferArm::kSelf).value, 2);
  EXPECT_DOUBLE_EQ(all.nll_of(TransferArm::kTransferred).value, 3);
  EXPECT_DOUBLE_EQ(all.nll_of(TransferArm::kNone).value, 5);
  EXPECT_DOUBLE_EQ(all.retention.value, 6.0 / 9);        // (15 - 9) / (15 - 6)
  EXPECT_DOUBLE_EQ(all.net_retention.value, 2.0 / 5);    // (11 - 9) / (11 - 6)
  EXPECT_DOUBLE_EQ(all.other_retention.value, 3.0 / 9);  // (15 - 12) / (15 - 6)
  EXPECT_DOUBLE_EQ(all.over_source.value, 1);
  EXPECT_DOUBLE_EQ(all.over_other_text.value, 1);
  EXPECT_NEAR(all.over_text_only.value, 2.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(all.kl[static_cast<size_t>(TransferArm::kTransferred)].value, 0.3);
  // The least and the greatest that three texts can give.
  EXPECT_GE(all.over_source.interval.low, 0.5);
  EXPECT_LE(all.over_source.interval.high, 1.5);
  EXPECT_LT(all.retention.interval.low, all.retention.value);
  EXPECT_GT(all.retention.interval.high, all.retention.value);

  const TransferSummary code = summarise_transfer(passages, 1, "code");
  EXPECT_EQ(code.n, 2);
  EXPECT_DOUBLE_EQ(code.retention.value, 5.0 / 6);
  EXPECT_EQ(kinds_of(passages), (std::vector<std::string>{"code", "maths"}));
  EXPECT_TRUE(kinds_of(std::vector{passage("", {1})}).empty());
}

TEST(TransferSummaryTest, TextsThatMissAnArmDoNotCount) {
  std::vector<PassageResult> passages = {passage("", {1, 2, 4, 3, 5, 2}),
                                         passage("", {9, 9, 9, 9, 9})};
  const TransferSummary summary = summarise_transfer(passages, 1);
  EXPECT_EQ(summary.n, 1);
  EXPECT_DOUBLE_EQ(summary.retention.value, 0.75);
  EXPECT_TRUE(std::isnan(summary.retention.interval.low));  // one text says nothing of others
}

TEST(TransferSummaryTest, AContextThatIsWorthNothingHasNoShares) {
  const TransferSummary summary =
      summarise_transfer(std::vector{passage("", {3, 2, 4, 3, 3, 2})}, 1);
  EXPECT_TRUE(std::isnan(summary.retention.value));
  EXPECT_TRUE(std::isnan(summary.net_retention.value));
  EXPECT_TRUE(std::isnan(summarise_transfer({}, 1).nll_of(TransferArm::kSelf).value));
}

}  // namespace
}  // namespace suture
