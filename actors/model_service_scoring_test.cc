// Continuations that a model process scores.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "actors/test_model_service.h"

namespace suture::model_service_test {
namespace {

class ModelServiceScoringTest : public ModelServiceTest {
 protected:
  // The last `scored` tokens of the prompt.
  GenerateRequest scoring(int64_t scored) {
    GenerateRequest scoring = request(prompt_, 0);
    scoring.ring.clear();
    scoring.scored_tokens = scored;
    return scoring;
  }
  static size_t at(int32_t id) { return static_cast<size_t>(id); }
};

// By the definition, from the logits of every row of the text.
TEST_F(ModelServiceScoringTest, AGivenContinuationIsScored) {
  const auto model = LanguageModel::load(kTiny, {}).value();
  const auto cache = model->make_cache(64).value();
  std::vector<double> logprobs;
  std::vector<bool> best;
  PrefillArgs args;
  args.token_ids = prompt_;
  args.cache = cache.get();
  args.on_logits = [&](int64_t row, const float* logits) -> Status {
    if (row + 1 == std::ssize(prompt_)) return {};
    const std::span<const float> all(logits, static_cast<size_t>(model->config().vocab_size));
    double sum = 0;
    for (const float logit : all) sum += std::exp(static_cast<double>(logit));
    const float logit = all[static_cast<size_t>(prompt_[static_cast<size_t>(row) + 1])];
    logprobs.push_back(logit - std::log(sum));
    best.push_back(logit == *std::ranges::max_element(all));
    return {};
  };
  ASSERT_TRUE(model->prefill(args));

  for (const int64_t scored : {int64_t{1}, int64_t{7}, std::ssize(prompt_) - 1}) {
    const GenerateDone done = generate(scoring(scored)).get();
    ASSERT_FALSE(done.outcome.failed) << done.outcome.what;
    ASSERT_EQ(std::ssize(done.scores), scored);
    for (int64_t i = 0; i < scored; ++i) {
      const auto row = logprobs.size() - static_cast<size_t>(scored - i);
      EXPECT_NEAR(done.scores[static_cast<size_t>(i)].logprob(), logprobs[row], 1e-5) << row;
      EXPECT_EQ(done.scores[static_cast<size_t>(i)].best, best[row]) << row;
    }
    EXPECT_EQ(done.figures.decoded_tokens, 0);
  }
  EXPECT_TRUE(std::ranges::count(best, true) < std::ssize(best));
}

// By the definition, from the logits of the row before each scored token.
TEST_F(ModelServiceScoringTest, TheBestTokensAndTheWatchedOnesComeWithEachScore) {
  const auto model = LanguageModel::load(kTiny, {}).value();
  const auto cache = model->make_cache(64).value();
  std::vector<std::vector<double>> rows;  // [rows][vocab] ln p
  PrefillArgs args;
  args.token_ids = prompt_;
  args.cache = cache.get();
  args.on_logits = [&](int64_t, const float* logits) -> Status {
    const std::span<const float> all(logits, static_cast<size_t>(model->config().vocab_size));
    double sum = 0;
    for (const float logit : all) sum += std::exp(static_cast<double>(logit));
    auto& row = rows.emplace_back();
    for (const float logit : all) row.push_back(logit - std::log(sum));
    return {};
  };
  ASSERT_TRUE(model->prefill(args));

  GenerateRequest request = scoring(3);
  request.score_detail = {.top = 5, .watched = {0, 7, 1, 1, 2, 30}};
  const GenerateDone done = generate(request).get();
  ASSERT_FALSE(done.outcome.failed) << done.outcome.what;
  ASSERT_EQ(done.scores.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<double>& row = rows[rows.size() - 4 + i];
    std::vector<int32_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater{}, [&](int32_t id) { return row[at(id)]; });
    order.resize(5);
    const TokenScore& score = done.scores[i];
    EXPECT_EQ(score.top, order);
    ASSERT_EQ(score.top_bits.size(), 5u);
    for (size_t k = 0; k < 5; ++k)
      EXPECT_NEAR(std::bit_cast<float>(score.top_bits[k]), row[at(order[k])], 1e-5);
    ASSERT_EQ(score.watched_bits.size(), 2u);
    for (size_t k = 0; k < 2; ++k)
      EXPECT_NEAR(std::bit_cast<float>(score.watched_bits[k]),
                  row[at(request.score_detail.watched[2 * i + k])], 1e-5);
  }
}

TEST_F(ModelServiceScoringTest, ScoresAreTheSameAfterAKeptTextAndBesideASilentSlave) {
  GenerateRequest whole = scoring(7);
  whole.keep_key = 60;
  const GenerateDone done = generate(whole).get();
  ASSERT_EQ(done.scores.size(), 7u);
  GenerateRequest next = scoring(7);
  next.head_key = 60;
  next.head_entries = std::ssize(prompt_) - 8;
  const GenerateDone again = generate(next).get();
  EXPECT_EQ(again.scores, done.scores);
  EXPECT_EQ(again.figures.prompt_tokens, 8);

  const StreamRef stream = read_on_slave(prompt_, 10);
  next.sources = {aligned(stream, 1, kOff)};
  EXPECT_EQ(generate(next).get().scores, done.scores);
  GenerateRequest stitched = scoring(7);
  stitched.sources = {aligned(stream, 1, 0.5f)};
  EXPECT_NE(generate(stitched).get().scores, done.scores);
}

// The text is read again without it: what it gave to the first rows must not show.
TEST_F(ModelServiceScoringTest, ScoresOfATextThatLostItsSlaveAreThoseWithoutIt) {
  const std::vector<int32_t> part(prompt_.begin(), prompt_.end() - 4);
  const StreamRef stream = read_on_slave(part, 10);
  slave_read_.wait();
  GenerateRequest stitched = scoring(7);
  stitched.sources = {aligned(stream, 1, 0.5f)};
  auto running = generate(stitched);
  slave_.run([&] { slave_.service->drop(10); }).get();  // the last rows never come
  const GenerateDone done = running.get();
  ASSERT_FALSE(done.outcome.failed) << done.outcome.what;
  EXPECT_EQ(done.degraded.size(), 1u);
  EXPECT_EQ(done.scores, generate(scoring(7)).get().scores);
}

TEST_F(ModelServiceScoringTest, ScoringThatCannotBeIsRefused) {
  GenerateRequest too_many = scoring(std::ssize(prompt_));
  EXPECT_EQ(generate(too_many).get().outcome.code, ErrorCode::kInvalidArgument);
  GenerateRequest generating = scoring(3);
  generating.max_tokens = 4;
  EXPECT_EQ(generate(generating).get().outcome.code, ErrorCode::kInvalidArgument);
  GenerateRequest late = scoring(3);
  late.head_key = 60;
  late.head_entries = std::ssize(prompt_) - 3;  // the row before them would be missing
  EXPECT_EQ(generate(late).get().outcome.code, ErrorCode::kInvalidArgument);
  for (const ScoreDetail& detail :
       {ScoreDetail{.top = -1}, ScoreDetail{.top = 257}, ScoreDetail{.watched = {1, 2}},
        ScoreDetail{.watched = {1, 2, -1}}, ScoreDetail{.watched = {1, 2, 1 << 20}}}) {
    GenerateRequest detailed = scoring(3);
    detailed.score_detail = detail;
    EXPECT_EQ(generate(detailed).get().outcome.code, ErrorCode::kInvalidArgument);
  }
  GenerateRequest no_ring = request(prompt_, 4);
  no_ring.ring.clear();
  EXPECT_EQ(generate(no_ring).get().outcome.code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace suture::model_service_test
