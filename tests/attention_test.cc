// Where a master looks while it answers, through a launch and by the program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "actors/launch.h"
#include "base/test_folder.h"
#include "models/test_models.h"
#include "tests/test_suture.h"
#include "tests/test_text_launch.h"

namespace suture {
namespace {

class AttentionSystemTest : public testing::Test {
 protected:
  AttentionSystemTest() : master_(text_master()), twin_(text_twin()), stranger_(text_stranger()) {
    folder_.write("document.txt", "the rain in the north on the other hand");
  }

  // Of a master, and a slave described by `lines`.
  TextLaunch with_slave(const std::string& lines, const TemporaryFile& slave) const {
    return {folder_.path(), master_.path(), slave.path(), lines};
  }
  std::unique_ptr<Launch> start(const std::string& lines, const TemporaryFile& slave) const {
    return start_text_launch(with_slave(lines, slave));
  }
  static Result<Answer> ask(Launch& launch, const AttentionQuery& attention,
                            const SlaveTexts& texts = {}) {
    const AskOptions options{.text = "why so",
                             .max_tokens = 9,
                             .sampling = {},
                             .ignore_eos = true,
                             .slave_texts = texts,
                             .attention = attention};
    const std::atomic<bool> cancelled = false;
    return launch.ask(
        options, [](std::string_view) {}, cancelled);
  }
  static AttentionShares shares(Launch& launch, std::vector<std::string> keywords,
                                const SlaveTexts& texts = {}) {
    const AttentionQuery query{.wanted = true, .keywords = std::move(keywords)};
    auto answer = ask(launch, query, texts);
    EXPECT_TRUE(answer.has_value()) << answer.error().message();
    return answer ? answer->attention : AttentionShares();
  }
  static void expect_whole(const AttentionShares& shares) {
    EXPECT_EQ(shares.readers, (std::vector<std::string>{"m", "s"}));
    ASSERT_EQ(shares.n_layers, 4);
    for (size_t layer = 0; layer < 4; ++layer)
      EXPECT_NEAR(shares.share(0, layer, kOwn) + shares.share(0, layer, kSlave), 1, 1e-5);
  }

  static constexpr size_t kOwn = 0;
  static constexpr size_t kSlave = 1;
  static constexpr const char* kDocument =
      "documents = [\"document.txt\"]\nfusion = { position = \"prefix\" }";
  TestFolder folder_;
  const TemporaryFile master_;
  const TemporaryFile twin_;
  const TemporaryFile stranger_;
};

TEST_F(AttentionSystemTest, WordsOfADocumentHaveAShareInWhoeverReadIt) {
  for (const TemporaryFile* slave : {&twin_, &stranger_}) {
    const auto launch = start(kDocument, *slave);
    const AttentionShares all =
        shares(*launch, {"the rain in the north on the other hand", "rain", "why", "the"});
    expect_whole(all);
    EXPECT_EQ(all.tokens, 9);
    const auto word = [&](size_t k, size_t reader) { return all.mean(1 + k, reader); };
    EXPECT_GT(word(0, kSlave), 0);
    EXPECT_LE(word(0, kSlave), all.mean(0, kSlave));
    EXPECT_EQ(word(0, kOwn), 0);
    EXPECT_GT(word(1, kSlave), 0);
    EXPECT_LT(word(1, kSlave), word(0, kSlave));
    EXPECT_GT(word(2, kOwn), 0);
    EXPECT_EQ(word(2, kSlave), 0);
    EXPECT_GT(word(3, kSlave), 0);

    const AttentionShares other = shares(*launch, {"snow"}, {.documents = {{"s", {"snow fell"}}}});
    expect_whole(other);
    EXPECT_GT(other.mean(1, kSlave), 0);
  }
}

// Its tokens may be others than the master's; what it brings stands for the master's.
TEST_F(AttentionSystemTest, AnAlignedSlaveHasReadWhatTheMasterReads) {
  for (const TemporaryFile* slave : {&twin_, &stranger_}) {
    const auto launch = start("fusion = { gain = 0 }", *slave);
    const AttentionShares all = shares(*launch, {"why"});
    expect_whole(all);
    EXPECT_GT(all.mean(0, kSlave), 0.01);
    EXPECT_GT(all.mean(1, kOwn), 0);
    EXPECT_GT(all.mean(1, kSlave), 0);
  }
  const auto launch = start("fusion = { gain = 0 }", twin_);
  const AttentionShares other = shares(*launch, {"who", "why"}, {.aligned_text = "who so"});
  EXPECT_EQ(other.mean(1, kOwn), 0);
  EXPECT_GT(other.mean(1, kSlave), 0);
  EXPECT_EQ(other.mean(2, kSlave), 0);
  const auto silent = start("fusion = { gain = -inf }", twin_);
  const AttentionShares alone = shares(*silent, {"why"});
  expect_whole(alone);
  EXPECT_EQ(alone.mean(0, kSlave), 0);
  EXPECT_EQ(alone.mean(1, kSlave), 0);
}

TEST_F(AttentionSystemTest, AnAnswerIsTheSameWhetherSomebodyWatchesOrNot) {
  const auto launch = start(kDocument, twin_);
  const Answer alone = ask(*launch, {}).value();
  EXPECT_TRUE(alone.attention.empty());
  EXPECT_EQ(ask(*launch, {.wanted = true}).value().token_ids, alone.token_ids);
  // Scoring: the mean over the tokens of all continuations.
  ScoreOptions options{.text = "why so", .continuations = {" because", "x"}};
  const std::atomic<bool> cancelled = false;
  const Scoring unwatched = launch->score(options, cancelled).value();
  options.attention = {.wanted = true, .keywords = {"rain"}};
  const Scoring watched = launch->score(options, cancelled).value();
  EXPECT_TRUE(unwatched.attention.empty());
  expect_whole(watched.attention);
  int64_t tokens = 0;
  for (size_t i = 0; i < 2; ++i) {
    tokens += std::ssize(watched.continuations[i].tokens);
    EXPECT_EQ(watched.continuations[i].logprob(), unwatched.continuations[i].logprob());
  }
  EXPECT_EQ(watched.attention.tokens, tokens);
  EXPECT_GT(watched.attention.mean(1, kSlave), 0);
}

TEST_F(AttentionSystemTest, WhatOccursNowhereIsRefusedUnlessItMay) {
  const auto launch = start(kDocument, twin_);
  const auto refused = [&](const AttentionQuery& query) {
    const auto answer = ask(*launch, query);
    return answer ? std::string() : answer.error().message();
  };
  EXPECT_NE(refused({.wanted = true, .keywords = {"rain", "Rain"}}).find("'Rain' occurs nowhere"),
            std::string::npos);
  EXPECT_EQ(refused({.wanted = true, .keywords = {"Rain"}, .must_occur = false}), "");
  EXPECT_NE(refused({.wanted = true, .keywords = {""}}).find("empty"), std::string::npos);
  EXPECT_NE(refused({.wanted = true, .keywords = std::vector<std::string>(32, "rain")})
                .find("at most 31"),
            std::string::npos);
}

TEST_F(AttentionSystemTest, RunPrintsATableUnderTheAnswer) {
  const std::string file =
      folder_.write("t.toml", text_topology(with_slave(kDocument, twin_))).string();
  const SutureRun run = run_suture({"run", file, "-p", "why so", "-n", "4", "--keyword", "rain"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  for (const char* part : {"looks at", "m (own)", "\"rain\" in s"})
    EXPECT_NE(run.output.find(part), std::string::npos) << part << "\n" << run.output;
  const SutureRun json =
      run_suture({"--json", "run", file, "-p", "why so", "-n", "4", "--attention"});
  ASSERT_EQ(json.exit_code, 0) << json.errors;
  const nlohmann::json attention = json.json().at("answers").at(0).at("attention");
  EXPECT_EQ(attention.at("models"), (std::vector<std::string>{"m", "s"}));
  EXPECT_NEAR(attention.at("mean")[0].get<double>() + attention.at("mean")[1].get<double>(), 1,
              1e-5);
  const SutureRun nowhere = run_suture({"run", file, "-p", "why so", "--keyword", "snow"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_NE(nowhere.errors.find("'snow' occurs nowhere"), std::string::npos) << nowhere.errors;
}

}  // namespace
}  // namespace suture
