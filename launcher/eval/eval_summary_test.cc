#include "launcher/eval/eval_summary.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/eval/eval_report.h"
#include "launcher/eval/test_eval.h"

namespace suture::eval_test {
namespace {

ArmResult arm(const Arm& arm, const std::vector<double>& scores) {
  ArmResult result{.arm = arm, .judged = {}, .why_refused = {}};
  for (const double score : scores)
    result.judged.emplace_back(Judgement{.score = score, .answer = "x", .seconds = 2});
  return result;
}

// `right` items of `n`, from the first on.
std::vector<double> right(size_t right, size_t n) {
  std::vector<double> scores(n, 0.0);
  std::fill_n(scores.begin(), right, 1.0);
  return scores;
}

TaskResult task(size_t alone, size_t stitched, size_t shuffled) {
  TaskResult task{"set", Metric::kNumber, std::vector<std::string>(40, "id"), {}};
  task.arms = {arm({.kind = ArmKind::kMasterAlone}, right(alone, 40)),
               arm({.kind = ArmKind::kStitched}, right(stitched, 40)),
               arm({.kind = ArmKind::kShuffled}, right(shuffled, 40))};
  return task;
}

TEST(EvalSummaryTest, MeansAndPairedComparisons) {
  const TaskSummary summary = summarise(task(10, 20, 12), 1);
  ASSERT_EQ(summary.arms.size(), 3u);
  EXPECT_EQ(summary.arms[0].n, 40);
  EXPECT_DOUBLE_EQ(summary.arms[0].mean, 0.25);
  EXPECT_DOUBLE_EQ(summary.arms[0].seconds, 2);
  EXPECT_FALSE(summary.arms[0].against_alone.has_value());
  const Comparison& comparison = summary.arms[1].against_alone.value();
  EXPECT_EQ(comparison.n, 40);
  EXPECT_DOUBLE_EQ(comparison.difference, 0.25);
  EXPECT_NEAR(comparison.p, 2.0 / 1024, 1e-12);  // ten items, all to one side
  EXPECT_NEAR(summary.arms[1].against_shuffled.value().difference, 0.2, 1e-12);
}

TEST(EvalSummaryTest, AGainBeatsBothControls) {
  EXPECT_EQ(summarise(task(10, 30, 12), 1).arms[1].gain, true);
  EXPECT_EQ(summarise(task(10, 30, 30), 1).arms[1].gain, false);  // whose message does not matter
  EXPECT_EQ(summarise(task(30, 30, 12), 1).arms[1].gain, false);  // the master knew it all
  EXPECT_EQ(summarise(task(10, 12, 10), 1).arms[1].gain, false);  // too few items tell
  EXPECT_FALSE(summarise(task(10, 30, 12), 1).arms[2].gain.has_value());
}

// Six items to one side: p = 2 / 64, which is below 0.05 but not below its third.
TEST(EvalSummaryTest, ASweepAsksForMore) {
  TaskResult one = task(10, 16, 10);
  EXPECT_EQ(summarise(one, 1).arms[1].gain, true);
  for (const double gain : {-1.0, -2.0}) {
    one.arms.push_back(arm({.kind = ArmKind::kStitched, .gain = gain}, right(10, 40)));
    one.arms.push_back(arm({.kind = ArmKind::kShuffled, .gain = gain}, right(10, 40)));
  }
  EXPECT_EQ(summarise(one, 1).arms[1].gain, false);
}

TEST(EvalSummaryTest, OnlyItemsThatBothArmsWereGivenAreCompared) {
  TaskResult part = task(10, 20, 12);
  part.arms[1].judged[0].reset();
  part.arms[0].judged[39].reset();
  const TaskSummary summary = summarise(part, 1);
  EXPECT_EQ(summary.arms[1].n, 39);
  EXPECT_EQ(summary.arms[1].against_alone.value().n, 38);
  part.arms[2].judged.assign(40, std::nullopt);
  EXPECT_EQ(summarise(part, 1).arms[1].against_shuffled.value().n, 0);
  EXPECT_EQ(summarise(part, 1).arms[1].gain, false);
}

// Each item counts the same, however many tokens it has.
TEST(EvalReportTest, WhereTheMasterLooksIsAMeanOverItems) {
  EvalResult result;
  result.tasks = {task(10, 30, 12)};
  auto& judged = result.tasks[0].arms[1].judged;
  const auto bits = [](float share) { return std::bit_cast<uint32_t>(share); };
  judged[0]->attention = {9, {"m", "a"}, {}, 1, {bits(0.5f), bits(0.5f)}};
  judged[1]->attention = {1, {"m", "a"}, {}, 1, {bits(1), bits(0)}};
  const LaunchSpec spec = topology({prefix("a")});
  const std::string report = eval_report(spec, result, 1);
  for (const char* part : {"### Where stitched looks", "mean of 2 items", "| layer | m (own) | a |",
                           "| all | 75.0 | 25.0 |"})
    EXPECT_NE(report.find(part), std::string::npos) << part << "\n" << report;
  EXPECT_EQ(report.find("Where master alone"), std::string::npos);
  const nlohmann::json arms = eval_json(spec, result, 1).at("tasks").at(0).at("arms");
  EXPECT_EQ(arms.at(1).at("attention").at("items"), 2);
  EXPECT_EQ(arms.at(1).at("attention").at("mean"), (std::vector<double>{0.75, 0.25}));
  EXPECT_FALSE(arms.at(0).contains("attention"));
}

TEST(EvalReportTest, SaysWhatWasMeasuredAndWhatItIsWorth) {
  const LaunchSpec spec = topology({prefix("a")});
  EvalResult result;
  result.tasks = {task(10, 30, 12)};
  result.tasks[0].arms[0].refused = 2;
  result.tasks[0].arms[0].why_refused = "too long";
  for (const size_t item : {3, 4}) result.tasks[0].arms[2].judged[item]->cut_short = true;
  const std::string report = eval_report(spec, result, 1);
  for (const char* part :
       {"# Evaluation of t.toml", "## set, by last number", "| master alone | 40 | 25.0",
        "**gain**", "2 items were refused (too long)",
        "another item's message: 2 of 40 answers cut short (", "a (slave): small, prefix"})
    EXPECT_NE(report.find(part), std::string::npos) << part << "\n" << report;
  EXPECT_EQ(report.find("Interrupted"), std::string::npos);
  result.ended_by = Error{ErrorCode::kCancelled, "interrupted", "eval", ""};
  EXPECT_NE(eval_report(spec, result, 1).find("Interrupted"), std::string::npos);

  const nlohmann::json json = nlohmann::json::parse(eval_json(spec, result, 1).dump());
  EXPECT_EQ(json.at("complete"), false);
  const nlohmann::json& arms = json.at("tasks").at(0).at("arms");
  EXPECT_EQ(arms.at(1).at("is_gain"), true);
  EXPECT_EQ(arms.at(1).at("items").size(), 40u);
  EXPECT_EQ(arms.at(1).at("against_alone").at("n"), 40);
  EXPECT_TRUE(arms.at(0).at("against_alone").is_null());
  EXPECT_EQ(arms.at(2).at("cut_short"), 2);
  EXPECT_EQ(arms.at(2).at("items").at(3).at("cut_short"), true);
  EXPECT_EQ(arms.at(2).at("items").at(5).at("cut_short"), false);
}

TEST(EvalReportTest, LikelihoodsAreInNats) {
  EvalResult result;
  TaskResult texts{"texts", Metric::kLikelihood, {"a", "b", "c"}, {}};
  texts.arms = {arm({.kind = ArmKind::kMasterAlone}, {-2, -1, -3}),
                arm({.kind = ArmKind::kStitched}, {-1.75, -0.75, -2.75})};
  result.tasks = {texts};
  const std::string report = eval_report(topology({aligned("a")}), result, 1);
  for (const char* part : {"| arm | n | ln p a token (95 %) |", "| master alone | 3 | -2.0000 (",
                           "+0.2500 (0.2500 to 0.2500)"})
    EXPECT_NE(report.find(part), std::string::npos) << part << "\n" << report;
}

}  // namespace
}  // namespace suture::eval_test
