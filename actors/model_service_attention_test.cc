// Where a model process says that it looks.
#include <gtest/gtest.h>

#include "actors/test_model_service.h"

namespace suture::model_service_test {
namespace {

constexpr int32_t kOwn = 0;
constexpr int32_t kSlave = 1;

class ModelServiceAttentionTest : public ModelServiceTest {
 protected:
  static AttentionWatch watch() {
    return {.on = true, .readers = {"master", "slave"}, .keywords = {}, .entries = {}};
  }
  GenerateRequest scoring(int64_t scored) {
    GenerateRequest scoring = request(prompt_, 0);
    scoring.ring.clear();
    scoring.scored_tokens = scored;
    scoring.watch = watch();
    return scoring;
  }
  static void expect_whole(const AttentionShares& shares) {
    ASSERT_TRUE(check(shares));
    ASSERT_FALSE(shares.empty());
    for (size_t layer = 0; layer < static_cast<size_t>(shares.n_layers); ++layer) {
      double sum = 0;
      for (size_t reader = 0; reader < shares.readers.size(); ++reader)
        sum += shares.share(0, layer, reader);
      EXPECT_NEAR(sum, 1, 1e-5) << "layer " << layer;
    }
  }
};

TEST_F(ModelServiceAttentionTest, AnAnswerTellsWhereItsTokensLooked) {
  const StreamRef stream = read_on_slave(prompt_, 10);
  GenerateRequest asked = request({prompt_.begin(), prompt_.begin() + 12}, 6);
  asked.own = {{0, 0}, {4, std::ssize(prompt_) - 4}};
  asked.first_new_position += std::ssize(prompt_) - 4;
  asked.sources = {prefix(stream, 4, std::ssize(prompt_))};
  const std::vector<int32_t> unwatched = answer(asked);
  asked.watch = watch();
  GenerateDone done;
  EXPECT_EQ(answer(asked, &done), unwatched);
  expect_whole(done.attention);
  EXPECT_EQ(done.attention.tokens, 6);
  EXPECT_EQ(done.attention.readers, (std::vector<std::string>{"master", "slave"}));
  EXPECT_EQ(done.attention.n_layers, 3);
  EXPECT_GT(done.attention.mean(0, kSlave), 0.05);
  EXPECT_GT(done.attention.mean(0, kOwn), 0.05);

  asked.watch = {};
  answer(asked, &done);
  EXPECT_TRUE(done.attention.empty());
}

TEST_F(ModelServiceAttentionTest, WhatCannotBeAskedIsRefused) {
  GenerateRequest asked = scoring(2);
  asked.watch.entries = {{0, 0, 0, 1}};  // of no keyword
  EXPECT_EQ(generate(asked).get().outcome.code, ErrorCode::kInvalidArgument);
}

TEST_F(ModelServiceAttentionTest, ASilentSlaveHasNoShare) {
  const StreamRef stream = read_on_slave(prompt_, 10);
  GenerateRequest asked = scoring(5);
  asked.sources = {aligned(stream, 1, kOff)};
  const GenerateDone done = generate(asked).get();
  expect_whole(done.attention);
  EXPECT_EQ(done.attention.tokens, 5);
  EXPECT_EQ(done.attention.mean(0, kSlave), 0);
  asked.sources = {aligned(stream, 1, 0)};
  EXPECT_GT(generate(asked).get().attention.mean(0, kSlave), 0.05);
}

// The same rows, once as scored tokens and once as the only ones that a text of that length scores.
TEST_F(ModelServiceAttentionTest, SharesAreMeansOverTheTokensThatAreScored) {
  const int64_t n = std::ssize(prompt_);
  const auto share_of_last = [&](int64_t length, int64_t scored) {
    GenerateRequest asked = scoring(scored);
    asked.token_ids.resize(static_cast<size_t>(length));
    asked.watch.keywords = {"beginning"};
    asked.watch.entries = {{0, kOwn, 0, 3}};
    const GenerateDone done = generate(asked).get();
    expect_whole(done.attention);
    EXPECT_EQ(done.attention.tokens, scored);
    return done.attention.share(1, 1, kOwn);
  };
  const double last = share_of_last(n, 1);
  const double before = share_of_last(n - 1, 1);
  EXPECT_NE(last, before);
  EXPECT_NEAR(share_of_last(n, 2), (last + before) / 2, 1e-5);
  EXPECT_GT(last, 0);
  EXPECT_LT(last, 1);
}

// What it gave to rows that were computed again must not show.
TEST_F(ModelServiceAttentionTest, ALostSlaveLeavesNoTraceInATextThatIsReadAgain) {
  const std::vector<int32_t> part(prompt_.begin(), prompt_.end() - 4);
  const StreamRef stream = read_on_slave(part, 10);
  slave_read_.wait();
  GenerateRequest asked = scoring(7);
  asked.sources = {aligned(stream, 1, 0.5f)};
  auto running = generate(asked);
  slave_.run([&] { slave_.service->drop(10); }).get();  // the last rows never come
  const GenerateDone done = running.get();
  EXPECT_EQ(done.degraded.size(), 1u);
  expect_whole(done.attention);
  EXPECT_EQ(done.attention.tokens, 7);
  EXPECT_EQ(done.attention.mean(0, kSlave), 0);
}

}  // namespace
}  // namespace suture::model_service_test
