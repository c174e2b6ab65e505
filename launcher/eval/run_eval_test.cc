#include "launcher/eval/run_eval.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "launcher/eval/eval_prompt.h"
#include "launcher/eval/test_eval.h"

namespace suture::eval_test {
namespace {

EvalSet sums(size_t count) {
  EvalSet set{"sums", {}};
  for (size_t i = 0; i < count; ++i)
    set.items.push_back(
        {"sums:" + std::to_string(i),
         NumberItem{.question = "item " + std::to_string(i), .number = std::to_string(i)}});
  return set;
}

// Launches that answer by a rule.
class RunEvalTest : public testing::Test {
 protected:
  EvalSurroundings surroundings() {
    EvalSurroundings surroundings;
    surroundings.start = [this](const LaunchSpec& spec) -> Result<StartedSubject> {
      started_.push_back(spec);
      StartedSubject started;
      started.subject.ask = [this, spec](const AskOptions& ask) -> Result<Answer> {
        const std::lock_guard lock(mutex_);
        asked_.push_back(ask);
        return answer_(spec, ask);
      };
      return started;
    };
    surroundings.on_progress = [this](std::string_view what, int64_t done, int64_t total) {
      const std::lock_guard lock(mutex_);
      steps_.insert(done);
      total_ = total;
      names_.insert(std::string(what));
    };
    return surroundings;
  }
  EvalResult run(const LaunchSpec& spec, const std::vector<EvalSet>& sets, EvalOptions options) {
    if (options.arms.empty()) options.arms = arms_of(spec, parse_arms({"all"}).value(), {});
    return run_eval(spec, sets, options, surroundings(), cancelled_);
  }
  // Says the number of the item it is asked about.
  static Result<Answer> knows(const LaunchSpec&, const AskOptions& ask) {
    Answer answer;
    answer.text = ask.text.substr(ask.text.find("item "), 7);
    return answer;
  }

  std::function<Result<Answer>(const LaunchSpec&, const AskOptions&)> answer_ = knows;
  std::atomic<bool> cancelled_ = false;
  std::vector<LaunchSpec> started_;
  std::vector<AskOptions> asked_;
  std::mutex mutex_;
  std::set<int64_t> steps_;
  std::set<std::string> names_;
  int64_t total_ = 0;
};

TEST_F(RunEvalTest, EveryArmGetsEveryItemWithAsFewLaunchesAsItTakes) {
  const LaunchSpec spec = topology({prefix("a")});
  const EvalResult result = run(spec, {sums(5)}, {.arms = {}, .side_by_side = 3});
  EXPECT_FALSE(result.ended_by.has_value());
  ASSERT_EQ(result.tasks.size(), 1u);
  EXPECT_EQ(result.tasks[0].ids.size(), 5u);
  ASSERT_EQ(result.tasks[0].arms.size(), 6u);
  for (const ArmResult& arm : result.tasks[0].arms) {
    ASSERT_EQ(arm.judged.size(), 5u);
    for (const auto& judged : arm.judged) EXPECT_TRUE(judged.has_value());
  }
  // Master, topology, slave, and the master again, which is told what the slave said.
  ASSERT_EQ(started_.size(), 4u);
  EXPECT_EQ(started_[1].models.size(), 2u);
  EXPECT_EQ(started_[2].models[0].name, "a");
  EXPECT_EQ(total_, 35);  // six arms and the slave's answers
  EXPECT_EQ(steps_.size(), 35u);
  EXPECT_EQ(std::ranges::count_if(asked_,
                                  [](const AskOptions& ask) {
                                    return ask.text.find("Another assistant answers: item ") == 0;
                                  }),
            5);
}

TEST_F(RunEvalTest, OnlyTheControlGetsAnotherItemsMessage) {
  const LaunchSpec spec = topology({prefix("a")});
  const auto kinds = parse_arms({"stitched", "shuffled"}).value();
  const EvalSet set = sums(4);
  run(spec, {set}, {.arms = arms_of(spec, kinds, {})});
  ASSERT_EQ(asked_.size(), 8u);
  EXPECT_EQ(started_.size(), 1u);
  for (size_t i = 0; i < 8; ++i) {
    const std::string& message = asked_[i].slave_texts.documents.at(0).texts.at(0);
    EXPECT_EQ(message == asked_[i].text, i < 4) << message;
  }
}

TEST_F(RunEvalTest, ItemsThatDoNotFitAreNotedAndTheOthersGoOn) {
  answer_ = [](const LaunchSpec& spec, const AskOptions& ask) -> Result<Answer> {
    if (ask.text.find("item 2") == 0) return fail(ErrorCode::kInvalidArgument, "too long");
    return knows(spec, ask);
  };
  const LaunchSpec spec = topology({});
  const EvalResult result = run(spec, {sums(4)}, {.arms = {}});
  EXPECT_FALSE(result.ended_by.has_value());
  const ArmResult& arm = result.tasks.at(0).arms.at(0);
  EXPECT_EQ(arm.refused, 1);
  EXPECT_EQ(arm.why_refused, "too long");
  EXPECT_FALSE(arm.judged[2].has_value());
  EXPECT_EQ(arm.judged[3]->score, 1);
}

TEST_F(RunEvalTest, AnInterruptKeepsWhatWasMeasured) {
  int asked = 0;
  answer_ = [&](const LaunchSpec& spec, const AskOptions& ask) -> Result<Answer> {
    if (++asked < 3) return knows(spec, ask);
    cancelled_ = true;
    return fail(ErrorCode::kCancelled, "interrupted");
  };
  const EvalResult result = run(topology({aligned("a")}), {sums(4)}, {.arms = {}});
  ASSERT_TRUE(result.ended_by.has_value());
  EXPECT_EQ(result.ended_by->code, ErrorCode::kCancelled);
  const ArmResult& alone = result.tasks.at(0).arms.at(0);
  EXPECT_TRUE(alone.judged[1].has_value());
  EXPECT_FALSE(alone.judged[2].has_value());
  EXPECT_EQ(started_.size(), 1u);
}

TEST_F(RunEvalTest, ALaunchThatFailsEndsItWithTheReason) {
  answer_ = [](const LaunchSpec&, const AskOptions&) -> Result<Answer> {
    return fail(ErrorCode::kLost, "the master is gone");
  };
  const EvalResult result = run(topology({}), {sums(4)}, {.arms = {}, .side_by_side = 2});
  ASSERT_TRUE(result.ended_by.has_value());
  EXPECT_EQ(result.ended_by->what, "the master is gone");
}

TEST(SampleTest, IsDrawnBySeedAndPairsEveryItemWithAnother) {
  const Sample all = draw_sample(50, 0, 7);
  ASSERT_EQ(all.items.size(), 50u);
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(all.items[i], i);
    EXPECT_NE(all.others[i], i);
  }
  EXPECT_EQ(std::set(all.others.begin(), all.others.end()).size(), 50u);
  const Sample some = draw_sample(50, 10, 7);
  EXPECT_EQ(some.items.size(), 10u);
  EXPECT_TRUE(std::ranges::is_sorted(some.items));
  EXPECT_EQ(draw_sample(50, 10, 7).items, some.items);
  EXPECT_NE(draw_sample(50, 10, 8).items, some.items);
  EXPECT_EQ(draw_sample(3, 10, 7).items.size(), 3u);
}

}  // namespace
}  // namespace suture::eval_test
