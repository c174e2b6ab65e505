#include "actors/drafting.h"

#include <gtest/gtest.h>

#include <vector>

#include "actors/test_model_service.h"

namespace suture::model_service_test {
namespace {

class DraftingTest : public ModelServiceTest {
 protected:
  // After `ids`, of which the stream `head` has read the beginning.
  ReadDone draft(std::vector<int32_t> ids, uint64_t head, int64_t tokens,
                 std::vector<int32_t> end_ids = {}, bool cancelled = false) {
    ReadRequest request;
    request.key = 8;
    request.token_ids = std::move(ids);
    request.head_key = head;
    request.draft = {tokens, std::move(end_ids)};
    ModelService& service = *slave_.service;
    service.expect(request.key);
    if (cancelled) service.cancel(request.key);
    const auto done = std::make_shared<std::promise<ReadDone>>();
    slave_.run([&service, request, done] {
      service.draft(request, [done](ReadDone read) { done->set_value(std::move(read)); });
    });
    return done->get_future().get();
  }
  std::vector<int32_t> first_said(int64_t n) const {
    return {greedy_.begin(), greedy_.begin() + n};
  }
};

// What another engine says after the same text.
TEST_F(DraftingTest, GoesOnFromWhatWasRead) {
  ASSERT_GE(greedy_.size(), 8u);
  read_on_slave(prompt_, 2);
  const ReadDone done = draft(prompt_, 2, 8);
  ASSERT_FALSE(done.outcome.failed) << done.outcome.what;
  EXPECT_EQ(done.key, 8u);
  EXPECT_EQ(done.draft.token_ids, first_said(8));
  EXPECT_EQ(done.draft.begin, std::ssize(prompt_));
  EXPECT_EQ(done.draft.end, std::ssize(prompt_) + 8);
  EXPECT_EQ(done.draft.stream.owner, "slave");
  EXPECT_EQ(done.figures.prompt_tokens, 1) << "the rest was there";
  EXPECT_EQ(done.figures.decoded_tokens, 8);
  // The master can attend to it, and the text itself is as it was.
  const int64_t end = std::ssize(prompt_);
  GenerateRequest both = request({prompt_.begin(), prompt_.begin() + 2}, 4);
  both.sources = {prefix(done.draft.stream, done.draft.begin, done.draft.end)};
  both.sources[0].segments[0].position_offset = 2 - end;
  both.sources[0].segments[0].rotation_shift = 2 - end;
  both.own = {{0, 0}, {2, 8}};
  GenerateDone answered;
  EXPECT_EQ(answer(both, &answered).size(), 4u);
  EXPECT_TRUE(answered.degraded.empty());
  EXPECT_EQ(slave_read_.get().outcome.failed, false);
}

TEST_F(DraftingTest, ReadsATextThatNobodyHasRead) {
  EXPECT_EQ(draft(prompt_, 0, 8).draft.token_ids, first_said(8));
  read_on_slave({prompt_.begin(), prompt_.begin() + 5}, 2);
  EXPECT_EQ(draft(prompt_, 2, 8).draft.token_ids, first_said(8));
}

TEST_F(DraftingTest, EndsBeforeItsEndToken) {
  read_on_slave(prompt_, 2);
  const int32_t last = greedy_[4];
  const auto first = std::find(greedy_.begin(), greedy_.end(), last) - greedy_.begin();
  EXPECT_EQ(draft(prompt_, 2, 8, {last}).draft.token_ids, first_said(first));
  const ReadDone nothing = draft(prompt_, 2, 8, {greedy_[0]});
  ASSERT_FALSE(nothing.outcome.failed);
  EXPECT_TRUE(nothing.draft.token_ids.empty());
  EXPECT_TRUE(nothing.draft.stream.owner.empty());
}

TEST_F(DraftingTest, TakesWhatRoomThereIs) {
  const auto read = std::ssize(prompt_);
  const ReadDone done = draft(prompt_, 0, 4096);  // the longest sequence has 128 tokens
  ASSERT_FALSE(done.outcome.failed) << done.outcome.what;
  EXPECT_EQ(std::ssize(done.draft.token_ids), 128 - read);
  const ReadDone none = draft(std::vector<int32_t>(128, 3), 0, 4);
  EXPECT_EQ(none.outcome.code, ErrorCode::kOutOfMemory);
}

TEST_F(DraftingTest, SaysWhyThereIsNone) {
  EXPECT_EQ(draft(prompt_, 77, 4).outcome.code, ErrorCode::kNotFound);
  EXPECT_TRUE(draft({}, 0, 4).outcome.failed);
  EXPECT_EQ(draft(prompt_, 0, 4, {}, true).outcome.code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace suture::model_service_test
