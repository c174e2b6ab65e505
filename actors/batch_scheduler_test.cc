#include "actors/batch_scheduler.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "models/test_models.h"

namespace suture {
namespace {

// A sequence that does what it is told, and writes down what happens to it.
struct Script {
  std::string name;
  std::deque<Turn> turns;  // what it says next; kDone when none is left
  KvCache* cache = nullptr;
  int32_t token_id = 1;
  std::vector<std::string>* log = nullptr;
  std::vector<float> logits = {};
  bool failed = false;
  std::function<void()> after_row = {};
};

class ScriptedTask final : public SequenceTask {
 public:
  ScriptedTask(Script& script, const LanguageModel& model) : script_(script), model_(model) {}

  DecodeItem row() override { return {script_.token_id, script_.cache, nullptr}; }
  void take_row(const Result<const float*>& logits, int64_t /*start_ns*/) override {
    note("row");
    script_.failed = !logits.has_value();
    if (logits) script_.logits.assign(*logits, *logits + model_.config().vocab_size);
    script_.turns.pop_front();
    if (script_.failed) script_.turns.clear();
    if (script_.after_row) script_.after_row();
  }
  void read_chunk(int64_t grid) override {
    note("chunk of " + std::to_string(grid));
    script_.turns.pop_front();
  }
  void add_doorbells(std::vector<DoorbellData*>& doorbells) override {
    doorbells.push_back(&doorbell_);
  }
  void finish() override { note("end"); }
  OwnerWork work() const override { return OwnerWork::kGenerating; }
  uint64_t request() const override { return 1; }

 protected:
  Result<Turn> next_turn() override {
    return script_.turns.empty() ? Turn::kDone : script_.turns.front();
  }

 private:
  void note(const std::string& what) const { script_.log->push_back(script_.name + ": " + what); }

  Script& script_;
  const LanguageModel& model_;
  DoorbellData doorbell_{};
};

class BatchSchedulerTest : public testing::Test {
 protected:
  Script script(const std::string& name, std::deque<Turn> turns) {
    caches_.push_back(model_->make_cache(8).value());
    return {.name = name, .turns = std::move(turns), .cache = caches_.back().get(), .log = &log_};
  }
  void add(Script& script) { scheduler_.add(std::make_unique<ScriptedTask>(script, *model_)); }
  std::vector<std::string> round() {
    log_.clear();
    worked_ = scheduler_.work();
    return log_;
  }

  using Log = std::vector<std::string>;
  std::unique_ptr<LanguageModel> model_ = load_tiny("llama");
  OwnerFiguresData figures_{};
  WorkMeter meter_{figures_};
  std::vector<std::unique_ptr<KvCache>> caches_;
  Log log_;
  bool worked_ = false;
  BatchScheduler scheduler_{*model_, meter_};
};

TEST_F(BatchSchedulerTest, AllThatAreReadyDecodeInOneStepAndOneThatIsNotSitsItOut) {
  Script a = script("a", {Turn::kRow, Turn::kRow});
  Script b = script("b", {Turn::kWait, Turn::kRow});
  Script c = script("c", {Turn::kRow});
  for (Script* one : {&a, &b, &c}) add(*one);
  EXPECT_EQ(round(), (Log{"a: row", "c: row", "c: end"}));
  b.turns.pop_front();
  EXPECT_EQ(round(), (Log{"a: row", "b: row", "a: end", "b: end"}));
  EXPECT_EQ(round(), Log{});
  EXPECT_FALSE(worked_);
}

TEST_F(BatchSchedulerTest, BetweenTwoStepsPromptsAdvanceByOneChunkInTurn) {
  Script decoding = script("d", {Turn::kRow, Turn::kRow, Turn::kRow, Turn::kRow});
  Script first = script("1", {Turn::kChunk, Turn::kChunk});
  Script second = script("2", {Turn::kChunk, Turn::kChunk});
  for (Script* one : {&decoding, &first, &second}) add(*one);
  EXPECT_EQ(round(), (Log{"d: row", "1: chunk of 128"}));
  EXPECT_EQ(round(), (Log{"d: row", "2: chunk of 128"}));
  EXPECT_EQ(round(), (Log{"d: row", "1: chunk of 128"}));
  EXPECT_EQ(round(), (Log{"d: row", "d: end", "1: end", "2: chunk of 128"}));
}

TEST_F(BatchSchedulerTest, AloneAPromptIsReadInWholeChunks) {
  Script prompt = script("p", {Turn::kChunk});
  add(prompt);
  EXPECT_EQ(round(), Log{"p: chunk of 512"});
}

// One that has come later does not overtake one that waits for its turn.
TEST_F(BatchSchedulerTest, ANewPromptTakesItsPlaceBehindThoseThatWait) {
  Script first = script("1", {Turn::kChunk, Turn::kChunk, Turn::kChunk});
  Script second = script("2", {Turn::kChunk, Turn::kChunk});
  add(first);
  add(second);
  EXPECT_EQ(round(), Log{"1: chunk of 512"});
  Script third = script("3", {Turn::kChunk, Turn::kChunk});
  add(third);
  EXPECT_EQ(round(), Log{"2: chunk of 512"});
  EXPECT_EQ(round(), Log{"1: chunk of 512"});
  EXPECT_EQ(round(), Log{"3: chunk of 512"});
}

TEST_F(BatchSchedulerTest, RowsHaveTheBitsThatTheyHaveAlone) {
  Script alone = script("a", {Turn::kRow});
  alone.token_id = 5;
  add(alone);
  round();
  Script again = script("b", {Turn::kRow});
  Script other = script("c", {Turn::kRow});
  again.token_id = 5;
  other.token_id = 9;
  add(other);
  add(again);
  round();
  EXPECT_EQ(again.logits, alone.logits);
  EXPECT_NE(other.logits, alone.logits);
}

TEST_F(BatchSchedulerTest, OneThatFailsLeavesTheOthersAlone) {
  Script bad = script("b", {Turn::kRow, Turn::kRow});
  bad.token_id = -1;
  Script good = script("g", {Turn::kRow, Turn::kRow});
  add(bad);
  add(good);
  EXPECT_EQ(round(), (Log{"b: row", "g: row", "b: end"}));
  EXPECT_TRUE(bad.failed);
  EXPECT_FALSE(good.failed);
  EXPECT_EQ(round(), (Log{"g: row", "g: end"}));
}

// Cancelled between two tokens, it is gone before the next step.
TEST_F(BatchSchedulerTest, OneThatEndsInTheMiddleOfABatchLeavesAtOnce) {
  Script cancelled = script("x", {Turn::kRow, Turn::kRow, Turn::kRow});
  Script other = script("o", {Turn::kRow, Turn::kRow});
  other.after_row = [&] { cancelled.turns.clear(); };
  add(cancelled);
  add(other);
  EXPECT_EQ(round(), (Log{"x: row", "o: row", "x: end"}));
  EXPECT_EQ(round(), (Log{"o: row", "o: end"}));
}

TEST_F(BatchSchedulerTest, MoreThanAPassTakesGoInTwo) {
  constexpr size_t kMany = LanguageModel::kMaxBatch + 3;
  std::vector<Script> scripts;
  for (size_t i = 0; i < kMany; ++i)
    scripts.push_back(script(std::to_string(i), {Turn::kRow, Turn::kWait}));
  for (Script& one : scripts) add(one);
  EXPECT_EQ(round().size(), kMany);
  for (const Script& one : scripts) EXPECT_EQ(one.logits, scripts[0].logits) << one.name;
}

TEST_F(BatchSchedulerTest, WhoeverWatchesSeesWhatTheFirstDoes) {
  Script one = script("o", {Turn::kWait});
  add(one);
  round();
  EXPECT_EQ(figures_.work.load(), static_cast<uint32_t>(OwnerWork::kGenerating));
  std::vector<DoorbellData*> doorbells;
  scheduler_.add_doorbells(doorbells);
  EXPECT_EQ(doorbells.size(), 1u);
  EXPECT_FALSE(scheduler_.ready());
  one.turns.clear();
  EXPECT_TRUE(scheduler_.ready());
  round();
  EXPECT_EQ(figures_.work.load(), static_cast<uint32_t>(OwnerWork::kIdle));
}

}  // namespace
}  // namespace suture
