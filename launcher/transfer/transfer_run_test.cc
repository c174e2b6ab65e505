#include "launcher/transfer/transfer_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace suture {
namespace {

// Launches that answer by a rule: a token's likelihood tells who was asked what.
class TransferRunTest : public testing::Test {
 protected:
  TransferRunTest() {
    for (LaunchSpec* spec :
         {&setup_.target_alone, &setup_.source_alone, &setup_.transferring, &setup_.text_only})
      spec->models.resize(1);
    setup_.target_alone.topology_path = "target alone";
    setup_.source_alone.topology_path = "source alone";
    setup_.transferring.topology_path = "transferred";
    setup_.text_only.topology_path = "text only";
    setup_.source_tokens = [](const std::vector<int32_t>& ids) {
      std::vector<int32_t> twice;
      for (const int32_t id : ids) twice.insert(twice.end(), {id, id});
      return twice;
    };
    setup_.beginning = 77;
    plans_ = {{.tokens = 4,
               .passages = {{"code", {1, 2, 3, 4}, {5, 6}, {11, 12, 13, 14}},
                            {"", {11, 12, 13, 14}, {15, 16}, {1, 2, 3, 4}}},
               .timed = {1, 2, 3, 4},
               .joined = false},
              {.tokens = 9, .passages = {}, .timed = {1, 2, 3, 4, 5, 6, 7, 8, 9}, .joined = true}};
  }

  struct Asked {
    std::string launch;
    TokenScoreOptions options;
  };

  TransferResult run() {
    TransferSurroundings surroundings;
    surroundings.start = [this](const LaunchSpec& spec) -> Result<TransferSubject> {
      const std::string name = spec.topology_path.string();
      started_.push_back(name);
      return TransferSubject{.score = [this, name](const TokenScoreOptions& options) {
        asked_.push_back({name, options});
        return answer_(name, options);
      }};
    };
    surroundings.on_progress = [this](std::string_view, double share) {
      EXPECT_GE(share, share_);
      share_ = share;
    };
    return run_transfer(setup_, plans_, surroundings, cancelled_);
  }

  // ln p of every token by launch; the most likely ones are 1 and 2, with 1/2 and 1/4.
  static Result<Scoring> rule(const std::string& launch, const TokenScoreOptions& options) {
    static const std::map<std::string, float> logprobs = {
        {"target alone", -1}, {"source alone", -3}, {"transferred", -1.5f}, {"text only", -2.25f}};
    float logprob = logprobs.at(launch);
    if (launch == "target alone" && options.question == std::vector<int32_t>{77}) logprob = -4;
    if (!options.aligned.empty()) logprob = -2;
    Scoring scoring;
    ScoredContinuation& scored = scoring.continuations.emplace_back();
    for (const int32_t id : options.continuation) {
      ScoredToken token{.id = id, .logprob = logprob, .best = false};
      const bool second = launch == "transferred" && id == 6;
      token.top = {{second ? 2 : 1, std::log(0.5f)}};
      if (options.detail.top > 1) token.top.push_back({2, std::log(0.25f)});
      if (!options.detail.watched.empty()) token.watched = {std::log(0.25f), std::log(0.5f)};
      scored.tokens.push_back(std::move(token));
    }
    ProcessFigures target{.name = "target", .prefill_seconds = 5, .bus_wait_seconds = 3};
    ProcessFigures source{.name = "source", .prefill_seconds = 2.5, .projection_seconds = 0.5};
    if (launch == "target alone") target.bus_wait_seconds = 0;
    scoring.figures = {target, source};
    scoring.seconds = 7;
    return scoring;
  }

  TransferSetup setup_;
  std::vector<LengthPlan> plans_;
  std::function<Result<Scoring>(const std::string&, const TokenScoreOptions&)> answer_ = rule;
  std::atomic<bool> cancelled_ = false;
  std::vector<std::string> started_;
  std::vector<Asked> asked_;
  double share_ = 0;
};

TEST_F(TransferRunTest, EveryArmJudgesEveryPassage) {
  const TransferResult result = run();
  ASSERT_FALSE(result.ended_by) << result.ended_by->message();
  EXPECT_EQ(started_,
            (std::vector<std::string>{"target alone", "source alone", "transferred", "text only"}));
  ASSERT_EQ(result.lengths.size(), 2u);
  ASSERT_EQ(result.lengths[0].passages.size(), 2u);
  EXPECT_TRUE(result.lengths[1].passages.empty());
  EXPECT_EQ(result.lengths[0].passages[0].kind, "code");
  for (const PassageResult& passage : result.lengths[0].passages) {
    EXPECT_DOUBLE_EQ(passage.of(TransferArm::kSelf)->nll, 1);
    EXPECT_DOUBLE_EQ(passage.of(TransferArm::kTransferred)->nll, 1.5);
    EXPECT_DOUBLE_EQ(passage.of(TransferArm::kOtherText)->nll, 2);
    EXPECT_DOUBLE_EQ(passage.of(TransferArm::kTextOnly)->nll, 2.25);
    EXPECT_DOUBLE_EQ(passage.of(TransferArm::kNone)->nll, 4);
    // Four tokens of the source, at 3 each, for two of the target.
    EXPECT_DOUBLE_EQ(passage.of(TransferArm::kSource)->nll, 6);
    EXPECT_DOUBLE_EQ(passage.of(TransferArm::kSelf)->top1, 1);
    EXPECT_NEAR(passage.of(TransferArm::kTransferred)->kl, 0.25 * std::log(2.0), 1e-6);
    EXPECT_NEAR(passage.of(TransferArm::kTransferred)->consistency, 2 * std::log(2.0), 1e-6);
    EXPECT_NEAR(passage.of(TransferArm::kSelf)->consistency, std::log(2.0), 1e-6);
  }
  EXPECT_DOUBLE_EQ(result.lengths[0].passages[0].of(TransferArm::kTransferred)->top1, 0.5);
  EXPECT_DOUBLE_EQ(result.lengths[0].passages[1].of(TransferArm::kTransferred)->top1, 1);
  EXPECT_NEAR(share_, 1, 1e-9);
}

TEST_F(TransferRunTest, EachArmReadsItsPart) {
  run();
  const auto asked = [this](const std::string& launch, size_t continued) {
    std::vector<TokenScoreOptions> found;
    for (const Asked& one : asked_)
      if (one.launch == launch && one.options.continuation.size() == continued)
        found.push_back(one.options);
    return found;
  };
  const auto alone = asked("target alone", 2);
  ASSERT_EQ(alone.size(), 4u);
  EXPECT_EQ(alone[0].question, (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(alone[0].continuation, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(alone[0].detail.top, kComparedTokens);
  EXPECT_EQ(alone[1].question, std::vector<int32_t>{77});
  EXPECT_EQ(alone[1].detail.watched, (std::vector<int32_t>{1, 2, 1, 2}));
  const auto transferred = asked("transferred", 2);
  ASSERT_EQ(transferred.size(), 4u);
  EXPECT_TRUE(transferred[0].aligned.empty());
  EXPECT_EQ(transferred[1].aligned, (std::vector<int32_t>{11, 12, 13, 14}));
  EXPECT_EQ(transferred[1].question, transferred[0].question);
  EXPECT_EQ(asked("source alone", 4)[0].question, (std::vector<int32_t>{1, 1, 2, 2, 3, 3, 4, 4}));
}

TEST_F(TransferRunTest, TimesAreOfWhatEachProcessDidItself) {
  const TransferResult result = run();
  for (const LengthResult& length : result.lengths) {
    EXPECT_EQ(length.times.normal, 5);
    EXPECT_EQ(length.times.source, 2);
    EXPECT_EQ(length.times.projection, 0.5);
    EXPECT_EQ(length.times.reread, 2);
    EXPECT_EQ(length.times.whole, 7);
    EXPECT_EQ(length.times.transfer(), 5);  // mapping and re-reading overlap
  }
  // Contexts are timed without a row too many.
  EXPECT_EQ(asked_[0].options.question, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(asked_[0].options.continuation, std::vector<int32_t>{4});
}

TEST_F(TransferRunTest, ASlaveThatWasLostEndsItWithTheReason) {
  answer_ = [](const std::string& launch, const TokenScoreOptions& options) {
    auto scoring = rule(launch, options);
    if (launch == "transferred") scoring->degraded = {{"source", 0, "process exited"}};
    return scoring;
  };
  const TransferResult result = run();
  ASSERT_TRUE(result.ended_by);
  EXPECT_EQ(result.ended_by->what, "process exited");
  EXPECT_TRUE(result.lengths[0].passages[0].of(TransferArm::kSelf));
  EXPECT_FALSE(result.lengths[0].passages[0].of(TransferArm::kTransferred));
}

TEST_F(TransferRunTest, AnInterruptKeepsWhatWasMeasured) {
  answer_ = [this](const std::string& launch, const TokenScoreOptions& options) {
    if (launch == "source alone") cancelled_ = true;
    return rule(launch, options);
  };
  const TransferResult result = run();
  ASSERT_TRUE(result.ended_by);
  EXPECT_EQ(result.ended_by->code, ErrorCode::kCancelled);
  EXPECT_TRUE(result.lengths[0].passages[1].of(TransferArm::kNone));
  EXPECT_EQ(started_.size(), 2u);
}

}  // namespace
}  // namespace suture
