// Continuations scored through a launch, and texts that slaves read for one request.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "actors/launch.h"
#include "base/test_folder.h"
#include "models/test_models.h"
#include "tests/test_suture.h"
#include "tests/test_text_launch.h"

namespace suture {
namespace {

std::vector<float> logprobs(const ScoredContinuation& continuation) {
  std::vector<float> values;
  for (const ScoredToken& token : continuation.tokens) values.push_back(token.logprob);
  return values;
}

class ScoringTest : public testing::Test {
 protected:
  ScoringTest() : master_(text_master()), twin_(text_twin()), stranger_(text_stranger()) {
    folder_.write("document.txt", kDocument);
  }

  // A master, and a slave described by `lines` if there are any.
  std::unique_ptr<Launch> start(const std::string& lines, const TemporaryFile& slave,
                                const std::string& file_lines = "") const {
    return start_text_launch({folder_.path(), master_.path(), slave.path(), lines, file_lines});
  }
  static Scoring score(Launch& launch, const SlaveTexts& texts = {}) {
    const ScoreOptions options{.text = "why so",
                               .continuations = {" because", " because of rain", "x"},
                               .slave_texts = texts};
    const std::atomic<bool> cancelled = false;
    auto scored = launch.score(options, cancelled);
    EXPECT_TRUE(scored.has_value()) << scored.error().message();
    EXPECT_TRUE(scored && scored->degraded.empty());
    return scored.value_or(Scoring());
  }
  // What follows the head, which is the system turn and the start of the question's.
  static std::vector<int32_t> tail_ids(const Scoring& scoring) {
    const std::vector<int32_t> question = {'w', 'h', 'y', ' ', 's', 'o'};
    const auto& ids = scoring.question_ids;
    return {std::search(ids.begin(), ids.end(), question.begin(), question.end()), ids.end()};
  }
  static std::vector<int32_t> answer(Launch& launch, const SlaveTexts& texts = {}) {
    AskOptions options{.text = "why so", .max_tokens = 16, .sampling = {}, .slave_texts = texts};
    const std::atomic<bool> cancelled = false;
    const auto answer = launch.ask(
        options, [](std::string_view) {}, cancelled);
    EXPECT_TRUE(answer.has_value()) << answer.error().message();
    return answer ? answer->token_ids : std::vector<int32_t>();
  }

  static constexpr const char* kDocument = "the rain in the north on the other hand";
  static constexpr const char* kPrefix = "fusion = { position = \"prefix\" }\n";
  TestFolder folder_;
  const TemporaryFile master_;
  const TemporaryFile twin_;
  const TemporaryFile stranger_;
};

// The same tokens in one process, without a launch.
TEST_F(ScoringTest, AMasterAloneGivesWhatScoreGives) {
  const auto launch = start("", twin_);
  const Scoring scoring = score(*launch);
  ASSERT_EQ(scoring.continuations.size(), 3u);
  for (const ScoredContinuation& continuation : scoring.continuations) {
    std::vector<int32_t> ids = scoring.question_ids;
    for (const ScoredToken& token : continuation.tokens) ids.push_back(token.id);
    const SutureRun run = run_suture({"--json", "score", master_.path().string(), "--ids", "-"},
                                     nlohmann::json(ids).dump());
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    auto expected = run.json().at("token_nll").get<std::vector<float>>();
    expected.erase(expected.begin(), expected.end() - std::ssize(continuation.tokens));
    for (float& nll : expected) nll = -nll;
    EXPECT_EQ(logprobs(continuation), expected);
  }
  // What the continuations share with the question is read once.
  int64_t read = 0;
  for (const ScoredContinuation& continuation : scoring.continuations)
    read += std::ssize(continuation.tokens) + 1;
  ASSERT_EQ(scoring.figures.size(), 1u);
  EXPECT_LT(scoring.figures[0].prompt_tokens, std::ssize(scoring.question_ids) + read);
}

TEST_F(ScoringTest, ASilentAlignedSlaveChangesNothingAndOneWithAGainDoes) {
  const auto alone = logprobs(score(*start("", twin_)));
  EXPECT_EQ(logprobs(score(*start("fusion = { gain = -inf }", twin_))), alone);
  const auto stitched = logprobs(score(*start("fusion = { gain = 0 }", twin_)));
  EXPECT_NE(stitched, alone);
  EXPECT_EQ(logprobs(score(*start("fusion = { gain = 0 }", twin_, "placement = \"in-process\""))),
            stitched);
}

TEST_F(ScoringTest, DocumentsOfOneRequestAreReadLikeThoseOfTheTopology) {
  const SlaveTexts texts{.documents = {{"s", {kDocument}}}};
  for (const TemporaryFile* slave : {&twin_, &stranger_}) {
    const auto fixed = start(std::string(kPrefix) + "documents = [\"document.txt\"]", *slave);
    const auto open = start(std::string(kPrefix) + "documents = []", *slave);
    const auto scores = logprobs(score(*fixed));
    const auto tokens = answer(*fixed);
    EXPECT_NE(logprobs(score(*open)), scores);
    EXPECT_EQ(logprobs(score(*open, texts)), scores);
    EXPECT_EQ(answer(*open, texts), tokens);
    EXPECT_EQ(logprobs(score(*fixed, {.documents = {{"s", {"another one"}}}})),
              logprobs(score(*open, {.documents = {{"s", {"another one"}}}})));
    EXPECT_EQ(logprobs(score(*fixed)), scores);
  }
}

// Its own question in place of its question changes nothing.
TEST_F(ScoringTest, AnAlignedSlaveCanReadAnotherText) {
  const auto launch = start("fusion = { gain = 0 }", twin_);
  const auto own = logprobs(score(*launch));
  EXPECT_EQ(logprobs(score(*launch, {.aligned_text = "why so"})), own);
  EXPECT_NE(logprobs(score(*launch, {.aligned_text = "how far is it"})), own);
  EXPECT_EQ(answer(*launch, {.aligned_text = "why so"}), answer(*launch));
  EXPECT_NE(answer(*launch, {.aligned_text = "how far is it"}), answer(*launch));
}

// A text cut at a token is the same text, and a chat's turns are tokens like others.
TEST_F(ScoringTest, TokensAreScoredLikeTheTextTheyAreOf) {
  const auto launch = start("fusion = { gain = 0 }", twin_);
  const Scoring text = score(*launch);
  const auto head = std::ssize(text.question_ids) - std::ssize(tail_ids(text));
  TokenScoreOptions options{.question = tail_ids(text), .continuation = {}};
  for (const ScoredToken& token : text.continuations[1].tokens)
    options.continuation.push_back(token.id);
  options.detail.top = 3;
  options.detail.watched = options.continuation;
  const std::atomic<bool> cancelled = false;
  const auto scored = launch->score(options, cancelled);
  ASSERT_TRUE(scored) << scored.error().message();
  EXPECT_EQ(scored->question_ids, text.question_ids);
  EXPECT_GT(head, 0);
  ASSERT_EQ(scored->continuations.size(), 1u);
  EXPECT_EQ(logprobs(scored->continuations[0]), logprobs(text.continuations[1]));
  for (const ScoredToken& token : scored->continuations[0].tokens) {
    ASSERT_EQ(token.top.size(), 3u);
    EXPECT_GE(token.top[0].logprob, token.top[1].logprob);
    EXPECT_EQ(token.best, token.top[0].id == token.id);
    EXPECT_EQ(token.watched, std::vector<float>{token.logprob});
  }
  options.aligned = options.question;
  EXPECT_EQ(logprobs(*launch->score(options, cancelled)), logprobs(*scored));
  std::ranges::reverse(options.aligned);
  EXPECT_NE(logprobs(*launch->score(options, cancelled)), logprobs(*scored));
}

TEST_F(ScoringTest, TokensThatCannotBeScoredAreRefused) {
  const auto launch = start("", twin_);
  const std::atomic<bool> cancelled = false;
  const auto refused = [&](const TokenScoreOptions& options) {
    const auto scored = launch->score(options, cancelled);
    return scored ? std::string() : scored.error().message();
  };
  EXPECT_NE(refused({.question = {1}, .continuation = {}}).find("empty"), std::string::npos);
  EXPECT_NE(
      refused({.question = {1}, .continuation = {2}, .aligned = {1, 2}}).find("2 tokens for 1"),
      std::string::npos);
  EXPECT_NE(refused({.question = {1}, .continuation = {2, 3}, .detail = {.watched = {1}}})
                .find("1 watched"),
            std::string::npos);
  EXPECT_NE(refused({.question = {1}, .continuation = {2, 3}, .detail = {.top = 1000}})
                .find("at most 256"),
            std::string::npos);
  EXPECT_NE(refused({.question = {1}, .continuation = {1 << 30}}), "");
  EXPECT_EQ(refused({.question = {}, .continuation = {2}}), "");  // after the master's head
}

TEST_F(ScoringTest, WhatCannotBeScoredIsRefusedByName) {
  const auto launch = start(std::string(kPrefix) + "documents = []", twin_);
  const std::atomic<bool> cancelled = false;
  const auto refused = [&](const ScoreOptions& options) {
    const auto scored = launch->score(options, cancelled);
    return scored ? std::string() : scored.error().message();
  };
  EXPECT_NE(refused({.text = "a", .continuations = {}}).find("0 continuations"), std::string::npos);
  EXPECT_NE(refused({.text = "a", .continuations = {"b", ""}}).find("empty"), std::string::npos);
  const auto with = [&](std::vector<SlaveDocuments> documents) {
    return refused(
        {.text = "a", .continuations = {"b"}, .slave_texts = {.documents = std::move(documents)}});
  };
  EXPECT_NE(with({{"m", {"text"}}}).find("m: no slave"), std::string::npos);
  EXPECT_NE(with({{"s", {""}}}).find("empty"), std::string::npos);
  EXPECT_NE(with({{"s", {"a"}}, {"s", {"b"}}}).find("twice"), std::string::npos);
  EXPECT_NE(with({{"s", {std::string(600, 'z')}}}).find("max_seq_len is 256"), std::string::npos);
  const std::atomic<bool> stopped = true;
  const auto ended = launch->score({.text = "a", .continuations = {"b"}}, stopped);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace suture
