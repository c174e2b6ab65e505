#include "launcher/transfer/transfer_report.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace suture {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// In the order of TransferArm: self, transferred, other text, text only, none, source.
PassageResult passage(const std::string& kind, const std::vector<double>& nll) {
  PassageResult passage{.kind = kind, .arms = {}};
  for (size_t i = 0; i < nll.size(); ++i)
    passage.arms[i] = ArmScore{.nll = nll[i], .kl = 0.125, .top1 = 0.75, .consistency = 0.5};
  return passage;
}

// Two texts of 512 tokens, and a context of 2048 that is timed only.
TransferReport report() {
  TransferReport report;
  report.source = "small";
  report.target = "large";
  report.projector = "p.suture";
  report.sink = 4;
  report.reread = 32;
  report.continued = 96;
  report.threads = 2;
  report.texts = 3;
  const TransferTimes times{
      .normal = 8, .whole = 2.5, .source = 2, .projection = 0.375, .reread = 0.25};
  const TransferWork work{.normal = 100, .source = 25, .projected = 3, .reread = 2};
  LengthPlan judged{.tokens = 512, .passages = {}, .timed = {}, .joined = false};
  judged.passages.resize(2);
  LengthResult scores;
  scores.passages = {passage("code", {1, 2, 4, 3, 5, 2.5}), passage("maths", {2, 2, 3, 3, 4, 3.5})};
  scores.times = times;
  report.lengths.push_back(length_report(judged, scores, work, 1));
  const LengthPlan timed{.tokens = 2048, .passages = {}, .timed = {}, .joined = true};
  report.lengths.push_back(length_report(timed, {.passages = {}, .times = times}, work, 1));
  return report;
}

TEST(TransferReportTest, JsonSaysWhatWasMeasured) {
  const nlohmann::json json = transfer_json(report());
  EXPECT_EQ(json.at("sound"), true);
  EXPECT_EQ(json.at("projector"), "p.suture");
  ASSERT_EQ(json.at("contexts").size(), 2u);
  const auto& context = json.at("contexts")[0];
  EXPECT_EQ(context.at("tokens"), 512);
  EXPECT_EQ(context.at("n"), 2);
  EXPECT_EQ(context.at("joined"), false);
  EXPECT_DOUBLE_EQ(context.at("nll").at("self"), 1.5);
  EXPECT_DOUBLE_EQ(context.at("nll").at("transferred"), 2);
  EXPECT_DOUBLE_EQ(context.at("nll").at("other_text"), 3.5);
  EXPECT_DOUBLE_EQ(context.at("nll").at("text_only"), 3);
  EXPECT_DOUBLE_EQ(context.at("nll").at("none"), 4.5);
  EXPECT_EQ(context.at("nll").size(), 5u);
  EXPECT_DOUBLE_EQ(context.at("source_nll"), 3);
  EXPECT_DOUBLE_EQ(context.at("retention"), 2.5 / 3);
  EXPECT_DOUBLE_EQ(context.at("net_retention"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(context.at("kl"), 0.125);
  EXPECT_DOUBLE_EQ(context.at("top1"), 0.75);
  EXPECT_DOUBLE_EQ(context.at("consistency"), 0.5);
  EXPECT_DOUBLE_EQ(context.at("normal_s"), 8);
  EXPECT_DOUBLE_EQ(context.at("source_s"), 2);
  EXPECT_DOUBLE_EQ(context.at("transfer_s"), 0.5);
  EXPECT_DOUBLE_EQ(context.at("speedup_with_source"), 8 / 2.5);
  EXPECT_DOUBLE_EQ(context.at("speedup_without_source"), 16);
  EXPECT_DOUBLE_EQ(context.at("bound_with_source"), 100.0 / 30);
  EXPECT_DOUBLE_EQ(context.at("bound_without_source"), 20);
  EXPECT_EQ(context.at("intervals").at("retention").size(), 2u);
  EXPECT_EQ(context.at("intervals").at("nll").at("self"), (nlohmann::json{1.0, 2.0}));
  EXPECT_DOUBLE_EQ(context.at("kinds").at("code").at("retention"), 0.75);
  EXPECT_EQ(context.at("kinds").at("maths").at("n"), 1);
  const auto& timed = nlohmann::json::parse(json.at("contexts")[1].dump());
  EXPECT_EQ(timed.at("joined"), true);
  EXPECT_EQ(timed.at("n"), 0);
  EXPECT_TRUE(timed.at("nll").at("self").is_null());
  EXPECT_TRUE(timed.at("retention").is_null());
  EXPECT_DOUBLE_EQ(timed.at("normal_s"), 8);
}

TEST(TransferReportTest, EvidenceIsWhatWasJudged) {
  const ProjectorEvidence expected{
      .sink = 4,
      .reread = 32,
      .continued = 96,
      .contexts = {
          {.tokens = 512,
           .n = 2,
           .nll = {.self = 1.5, .transferred = 2, .other_text = 3.5, .text_only = 3, .none = 4.5},
           .consistency = 0.5}}};
  EXPECT_EQ(evidence_of(report()), expected);
}

TEST(TransferReportTest, TheVerdictSaysWhatIsBeaten) {
  const std::string verdict = transfer_verdict(report());
  EXPECT_TRUE(contains(verdict, "At 512 tokens (2 texts) the transferred target keeps 83 %"))
      << verdict;
  EXPECT_TRUE(contains(verdict, "67 % net")) << verdict;
  EXPECT_TRUE(contains(verdict,
                       "It beats the source that read the text (+1.000 nats), another "
                       "text's rows (+1.500 nats), the tokens read again alone (+1.000"))
      << verdict;
  EXPECT_TRUE(contains(verdict, "At 2048 tokens it is 3.2 x as fast")) << verdict;
  EXPECT_TRUE(contains(verdict, "16.0 x without it (20.0)")) << verdict;

  TransferReport worse = report();
  LengthResult scores;
  scores.passages = {passage("", {1, 3, 2.5, 4, 5, 2}), passage("", {1, 3, 2.5, 4, 5, 4.5})};
  LengthPlan plan{.tokens = 512, .passages = {}, .timed = {}, .joined = false};
  plan.passages.resize(2);
  const LengthReport& old = worse.lengths[0];
  worse.lengths[0] =
      length_report(plan, {.passages = scores.passages, .times = old.times}, old.work, 1);
  EXPECT_TRUE(contains(transfer_verdict(worse),
                       "It beats the tokens read again alone (+1.000 "
                       "nats). It is not shown to beat the source"))
      << transfer_verdict(worse);
  // One and the same model cannot beat itself.
  worse.source = worse.target;
  EXPECT_FALSE(contains(transfer_verdict(worse), "the source that"));
}

TEST(TransferReportTest, WhatIsNotSoundSaysWhy) {
  EXPECT_EQ(unsound(report()), "");
  TransferReport fitted = report();
  fitted.fitted = 2;
  fitted.fitted_measured = true;
  EXPECT_TRUE(contains(unsound(fitted), "2 of the texts are among those"));
  EXPECT_EQ(transfer_json(fitted).at("sound"), false);
  EXPECT_TRUE(transfer_verdict(fitted).starts_with("Not sound: 2 of the texts"));
  TransferReport forced = report();
  forced.forced = {"fitted for other weights"};
  EXPECT_TRUE(contains(unsound(forced), "fitted for other weights"));
  TransferReport ended = report();
  ended.ended_by = fail(ErrorCode::kCancelled, "interrupted").value();
  EXPECT_TRUE(contains(unsound(ended), "interrupted"));
  EXPECT_EQ(transfer_json(ended).at("ended_by").at("what"), "interrupted");
  TransferReport missing = report();
  missing.lengths[0].passages = 3;
  EXPECT_TRUE(contains(unsound(missing), "2 of 3 texts"));
  TransferReport infinite = report();
  infinite.lengths[0].all.nll[0].value = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(contains(unsound(infinite), "missing or infinite"));
  TransferReport untimed = report();
  untimed.lengths[1].times.normal = 0;
  EXPECT_TRUE(contains(unsound(untimed), "at 2048 tokens"));
}

TEST(TransferReportTest, TheTextIsMadeToBeRead) {
  const std::string text = transfer_text(report());
  EXPECT_TRUE(contains(text, "small reads, large goes on; projector p.suture")) << text;
  EXPECT_TRUE(contains(text, "           512    2       1.500       2.000       3.500")) << text;
  EXPECT_TRUE(contains(text, "         maths    1")) << text;
  EXPECT_TRUE(contains(text, "    2048*     8.000     2.000 +    0.500 (  0.375,   0.250)"))
      << text;
  EXPECT_TRUE(contains(text, "3.20 x of 3.33")) << text;
  EXPECT_TRUE(contains(text, "* no text is as long")) << text;
  EXPECT_FALSE(contains(text, "nan")) << text;
  TransferReport ended = report();
  ended.lengths[1].times = {.normal = 8};
  ended.ended_by = fail(ErrorCode::kCancelled, "interrupted").value();
  const std::string part = transfer_text(ended);
  EXPECT_TRUE(contains(part, "    2048*     8.000         - +        -")) << part;
  EXPECT_FALSE(contains(part, "inf x")) << part;
}

// 56 columns from 1.5 to 4.5: a nat is 18.33 columns.
TEST(TransferReportTest, ThePlotPutsEachArmInItsPlace) {
  const std::string plot = transfer_plot(report().lengths);
  std::string row(56, '.');
  row[0] = 's';
  row[9] = 't';
  row[28] = 'S';  // at 3.0, where text only is too: it covers the source
  row[28] = 'x';
  row[37] = 'o';
  row[55] = 'n';
  EXPECT_TRUE(contains(plot, "      512 |" + row + "|\n")) << plot;
  EXPECT_FALSE(contains(plot, "     2048 |s")) << plot;
  // 16 x fills the row, 3.2 x eleven columns and the one it ends in; 1 x is in the fourth.
  const std::string bar = "###|########" + std::string(44, '=');
  EXPECT_TRUE(contains(plot, "      512 |" + bar + "| 3.2 x, 16.0 x\n")) << plot;
  EXPECT_EQ(transfer_plot({}), "");
}

}  // namespace
}  // namespace suture
