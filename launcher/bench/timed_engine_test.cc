#include "launcher/bench/timed_engine.h"

#include <gtest/gtest.h>

#include "launcher/bench/engine_figures.h"

namespace suture {
namespace {

const std::string kTinyLlama = std::string(SUTURE_TEST_DATA_DIR) + "/tiny/llama";  // 256 positions

TEST(TimedEngineTest, RunsTheSameTasksAgainAndAgain) {
  TimedEngine engine = TimedEngine::load(kTinyLlama, 1, 64).value();
  EXPECT_GT(engine.load_seconds(), 0);
  for (int i = 0; i < 3; ++i) {
    const auto prefill = engine.prefill(60);
    ASSERT_TRUE(prefill) << prefill.error().message();
    EXPECT_GT(*prefill, 0);
    const auto decode = engine.decode(40, 24);
    ASSERT_TRUE(decode) << decode.error().message();
    EXPECT_GT(*decode, 0);
  }
}

TEST(TimedEngineTest, AHistoryThatIsThereIsNotReadAgain) {
  TimedEngine engine = TimedEngine::load(kTinyLlama, 1, 64).value();
  ASSERT_TRUE(engine.set_history(50));
  EXPECT_EQ(engine.history(), 50);
  ASSERT_TRUE(engine.decode(50, 10));
  EXPECT_EQ(engine.history(), 60);
  ASSERT_TRUE(engine.set_history(50));
  EXPECT_EQ(engine.history(), 50);
}

TEST(TimedEngineTest, BatchesOfAnySizeAndLength) {
  TimedEngine engine = TimedEngine::load(kTinyLlama, 1, 64).value();
  for (const int64_t sequences : {2, 1, 4})
    for (const int64_t history : {8, 40}) {
      const auto seconds = engine.decode_batch(sequences, history, 4);
      ASSERT_TRUE(seconds) << seconds.error().message();
      EXPECT_GT(*seconds, 0);
    }
}

TEST(TimedEngineTest, MoreThanTheModelWasTrainedForIsRefused) {
  const auto engine = TimedEngine::load(kTinyLlama, 1, 257);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(engine.error().what.find("257 tokens, more than the 256"), std::string::npos)
      << engine.error().what;
}

TEST(EngineFiguresTest, SpeedsAndSharesFollowFromTimesAndWork) {
  TimedEngine engine = TimedEngine::load(kTinyLlama, 1, 64).value();
  MachineLimits limits = MachineLimits::create(1, best_isa(), 8 << 20).value();
  std::vector<std::string> steps;
  const EngineFigures f =
      measure_engine(
          engine, limits, {.prompt_tokens = 32, .generated_tokens = 4, .rounds = 2},
          [&](std::string_view what, int64_t done, int64_t total) {
            steps.push_back(std::string(what) + std::to_string(done) + "/" + std::to_string(total));
          })
          .value();
  EXPECT_EQ(steps, (std::vector<std::string>{"prefill0/4", "decode1/4", "prefill2/4", "decode3/4",
                                             "done4/4"}));
  EXPECT_EQ(f.prefill_tok_s.count, 2);
  EXPECT_DOUBLE_EQ(f.read_bytes_s.median,
                   f.decode_tok_s.median * engine.work().decode_bytes(32, 4));
  EXPECT_DOUBLE_EQ(f.flop_s.median, f.prefill_tok_s.median * engine.work().prefill_flop(32) / 32);
}

EngineFigures made_up() {
  EngineFigures f;
  f.model = "small";
  f.threads = 2;
  f.target = "avx2";
  f.prefill_tok_s = {200, 190, 210, 5};
  f.decode_tok_s = {20, 19, 21, 5};
  f.read_bytes_s = {12e9, 11e9, 13e9, 5};
  f.flop_s = {50e9, 40e9, 60e9, 5};
  f.limit_bytes_s = 16e9;
  f.limit_flop_s = 200e9;
  f.limit_instruction = "multiply";
  f.resident_bytes = 123'000'000;
  f.load_seconds = 0.5;
  return f;
}

TEST(EngineFiguresTest, JsonHasEveryFigure) {
  const nlohmann::json expected = {
      {"model", "small"},
      {"threads", 2},
      {"target", "avx2"},
      {"n", 5},
      {"prompt_tokens", 512},
      {"generated_tokens", 48},
      {"prefill_tok_s", 200.0},
      {"decode_tok_s", 20.0},
      {"read_gb_s", 12.0},
      {"limit_gb_s", 16.0},
      {"gflop_s", 50.0},
      {"limit_gflop_s", 200.0},
      {"limit_instruction", "multiply"},
      {"share_of_read_limit", 0.75},
      {"share_of_flop_limit", 0.25},
      {"intervals", {{"prefill_tok_s", {190.0, 210.0}}, {"decode_tok_s", {19.0, 21.0}}}},
      {"rss_bytes", 123'000'000},
      {"load_s", 0.5}};
  EXPECT_EQ(to_json(made_up()), expected) << to_json(made_up()).dump(2);
}

TEST(EngineFiguresTest, TableShowsHowNearTheLimitIs) {
  const std::string table = engine_table(made_up());
  for (const char* part : {"small, 2 threads, avx2; medians of 5 rounds", "200.0", "190.0 to 210.0",
                           "50.0 of 200.0", "[######------------------]  25 %", "12.0 of 16.0",
                           "[##################------]  75 %", "multiply", "0.50 s, 123 MB"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
}

TEST(ShareBarTest, IsFullAtTheLimitAndBeyond) {
  EXPECT_EQ(share_bar(0, 4), "[----]");
  EXPECT_EQ(share_bar(0.5, 4), "[##--]");
  EXPECT_EQ(share_bar(1, 4), "[####]");
  EXPECT_EQ(share_bar(1.1, 4), "[####]");
}

}  // namespace
}  // namespace suture
