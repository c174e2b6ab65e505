#include "fusion/merge_plan.h"

#include <gtest/gtest.h>

#include <limits>

namespace suture {
namespace {

MergeInput two_documents() {
  MergeInput input;
  input.head_ids = {1, 2, 3};
  input.tail_ids = {7, 8};
  input.max_new_tokens = 4;
  input.max_positions = 100;
  input.n_layers = 1;
  input.sources = {
      {.name = "a",
       .position = SlavePosition::kPrefix,
       .token_ids = {1, 2, 3, 40, 41},
       .shared_tokens = 3,
       .layer_gain = {0}},
      {.name = "b",
       .position = SlavePosition::kPrefix,
       .token_ids = {1, 2, 3, 50, 51, 52},
       .shared_tokens = 3,
       .layer_gain = {0}},
  };
  return input;
}

TEST(MergePlanTest, DocumentsFollowTheSharedHeadOneAfterAnother) {
  const auto plan = plan_merge(two_documents());
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  ASSERT_EQ(plan->segments.size(), 2u);
  // Head 0..2, a's own two tokens at 3..4, b's three at 5..7, the tail at 8..9.
  EXPECT_EQ(plan->segments[0].begin, 3);
  EXPECT_EQ(plan->segments[0].end, 5);
  EXPECT_EQ(plan->segments[0].position_offset, 0);
  EXPECT_EQ(plan->segments[1].begin, 3);
  EXPECT_EQ(plan->segments[1].end, 6);
  EXPECT_EQ(plan->segments[1].position_offset, 2);
  EXPECT_EQ(plan->segments[1].rotation_shift, 2);
  ASSERT_EQ(plan->own.size(), 2u);
  EXPECT_EQ(plan->own[1].begin, 3);
  EXPECT_EQ(plan->own[1].position_offset, 5);
  EXPECT_EQ(plan->first_new_position, 10);
}

TEST(MergePlanTest, APrefixThatSharesNothingStillLosesItsFirstToken) {
  MergeInput input = two_documents();
  input.sources.resize(1);
  input.sources[0].token_ids = {90, 91, 92};
  input.sources[0].shared_tokens = 0;
  const auto plan = plan_merge(input);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->segments[0].begin, 1);
  EXPECT_EQ(plan->segments[0].position_offset, 2);
  EXPECT_EQ(plan->own[1].position_offset, 2);
}

TEST(MergePlanTest, AnAlignedSlaveMeetsEveryRunOfTheMasterWithItsOwnShift) {
  MergeInput input = two_documents();
  input.sources.push_back(
      {.name = "c", .position = SlavePosition::kAligned, .layer_gain = {-1.0f}, .lag = 2});
  const auto plan = plan_merge(input);
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->segments.size(), 4u);
  const PlannedSegment& head = plan->segments[2];
  const PlannedSegment& tail = plan->segments[3];
  EXPECT_EQ(head.end, 3);
  EXPECT_EQ(head.rotation_shift, 0);
  EXPECT_EQ(tail.begin, 3);
  EXPECT_EQ(tail.end, PlannedSegment::kOpenEnd);
  EXPECT_EQ(tail.rotation_shift, 5);
  // The row at position 9 (entry 4) sees entries whose position is at most 7: entry 2 of the head
  // run and none of the tail run beyond entry 2 + ... = 7 - 5 = 2, which is before its begin.
  EXPECT_EQ(visible_end(head, 9), 3);
  EXPECT_EQ(visible_end(tail, 9), 3);
  EXPECT_EQ(visible_end(tail, 10), 4);
}

TEST(MergePlanTest, WithoutPrefixesTheMasterIsOneRun) {
  MergeInput input = two_documents();
  input.sources.clear();
  const auto plan = plan_merge(input);
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->own.size(), 1u);
  EXPECT_EQ(plan->own[0].position_offset, 0);
  EXPECT_EQ(plan->first_new_position, 5);
}

// Head 3, documents 2 and 3, tail 2 at positions 8 and 9: those rows see 9 and 10 tokens.
TEST(MergePlanTest, RowsThatWouldSeeTooManyTokensDoWithoutSlaves) {
  MergeInput input = two_documents();
  EXPECT_EQ(plan_merge(input)->stitch_end, INT64_MAX);
  for (const auto& [limit, end] :
       std::vector<std::pair<int64_t, int64_t>>{{8, 8}, {9, 9}, {10, 10}, {13, 13}}) {
    input.stitch_until = limit;
    EXPECT_EQ(plan_merge(input)->stitch_end, end) << limit;
  }
  input.stitch_until = 14;  // the last of four new tokens is the 14th
  EXPECT_EQ(plan_merge(input)->stitch_end, INT64_MAX);
  // What is silent does not count, what an aligned slave adds grows with the text.
  input.stitch_until = 8;
  for (MergeSource& source : input.sources)
    source.layer_gain = {-std::numeric_limits<float>::infinity()};
  EXPECT_EQ(plan_merge(input)->stitch_end, 13);  // the ninth own token
  input.sources = {{.name = "c", .position = SlavePosition::kAligned, .layer_gain = {0}, .lag = 1}};
  input.stitch_until = 10;  // the row at p sees p + 1 own and p aligned tokens
  EXPECT_EQ(plan_merge(input)->stitch_end, 5);
}

TEST(MergePlanTest, RefusesWhatDoesNotFit) {
  MergeInput input = two_documents();
  input.max_positions = 13;
  const auto plan = plan_merge(input);
  ASSERT_FALSE(plan.has_value());
  EXPECT_NE(plan.error().what.find("14 positions"), std::string::npos) << plan.error().what;

  input = two_documents();
  input.sources[0].layer_gain = {0, 0};
  EXPECT_FALSE(plan_merge(input).has_value());
  input.sources[0].layer_gain = {std::numeric_limits<float>::quiet_NaN()};
  EXPECT_FALSE(plan_merge(input).has_value());
  input = two_documents();
  input.tail_ids.clear();
  EXPECT_FALSE(plan_merge(input).has_value());
}

// The master reads 3 tokens at the beginning of a text of 20 and 2 at its end.
TEST(MergePlanTest, ATransferredTextFillsThePlaceBetweenHeadAndTail) {
  MergeInput input = two_documents();
  input.stitch_until = 5;  // says nothing here: without the slave's rows there is no text
  input.sources = {{.name = "reader", .layer_gain = {0}, .transfer_end = 18}};
  const auto plan = plan_merge(input);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  ASSERT_EQ(plan->segments.size(), 1u);
  EXPECT_EQ(plan->segments[0].position, SlavePosition::kPrefix);
  EXPECT_EQ(plan->segments[0].begin, 3);
  EXPECT_EQ(plan->segments[0].end, 18);
  EXPECT_EQ(plan->segments[0].position_offset, 0);
  EXPECT_EQ(plan->segments[0].rotation_shift, 0);
  EXPECT_EQ(visible_end(plan->segments[0], 2), 3) << "the head sees nothing that comes after it";
  EXPECT_EQ(visible_end(plan->segments[0], 18), 18);
  ASSERT_EQ(plan->own.size(), 2u);
  EXPECT_EQ(plan->own[1].begin, 3);
  EXPECT_EQ(plan->own[1].position_offset, 15);
  EXPECT_EQ(plan->first_new_position, 20);
  EXPECT_EQ(plan->stitch_end, INT64_MAX);

  input.head_ids.clear();
  const auto without_head = plan_merge(input);
  ASSERT_TRUE(without_head.has_value());
  EXPECT_EQ(without_head->segments[0].begin, 0);
  ASSERT_EQ(without_head->own.size(), 1u);
  EXPECT_EQ(without_head->own[0].position_offset, 18);

  input.sources[0].transfer_end = -1;
  EXPECT_FALSE(plan_merge(input).has_value());
  input.sources[0].transfer_end = 18;
  input.sources.push_back({.name = "other", .layer_gain = {0}});
  EXPECT_FALSE(plan_merge(input).has_value());
}

// What two slaves said lies between the text and the last two tokens, which open the answer.
TEST(MergePlanTest, DraftsLieBeforeTheOpeningOfTheAnswer) {
  MergeInput input = two_documents();
  input.tail_ids = {7, 8, 9, 10};
  input.opening_tokens = 2;
  input.sources.push_back(
      {.name = "c", .position = SlavePosition::kAligned, .layer_gain = {0}, .lag = 1});
  MergeSource draft{.name = "c", .layer_gain = {0}};
  draft.draft_begin = 7;
  draft.draft_end = 10;
  input.sources.push_back(draft);
  draft.name = "a";
  draft.draft_begin = 0;
  draft.draft_end = 2;
  input.sources.push_back(draft);
  const auto plan = plan_merge(input);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  // Head 0..2, documents 3..7, tail 8..9, drafts 10..12 and 13..14, opening 15..16.
  ASSERT_EQ(plan->own.size(), 3u);
  EXPECT_EQ(plan->own[1].position_offset, 5);
  EXPECT_EQ(plan->own[2].begin, 5);
  EXPECT_EQ(plan->own[2].position_offset, 10);
  EXPECT_EQ(plan->first_new_position, 17);
  ASSERT_EQ(plan->segments.size(), 7u);
  const PlannedSegment& first = plan->segments[2];
  EXPECT_EQ(first.source, 3);
  EXPECT_EQ(first.position, SlavePosition::kPrefix);
  EXPECT_EQ(first.begin, 7);
  EXPECT_EQ(first.end, 10);
  EXPECT_EQ(first.position_offset, 3);
  EXPECT_EQ(first.rotation_shift, 3);
  EXPECT_EQ(visible_end(first, 9), 7) << "the question does not see it";
  EXPECT_EQ(visible_end(first, 15), 10);
  const PlannedSegment& second = plan->segments[3];
  EXPECT_EQ(second.source, 4);
  EXPECT_EQ(second.position_offset, 13);
  EXPECT_EQ(visible_end(second, 12), 0);
  EXPECT_EQ(visible_end(second, 15), 2);
  // What was read meets the master on both sides, where the master's own tokens are.
  EXPECT_EQ(plan->segments[4].end, 3);
  EXPECT_EQ(plan->segments[5].begin, 3);
  EXPECT_EQ(plan->segments[5].end, 5);
  EXPECT_EQ(plan->segments[5].position_offset, 5);
  EXPECT_EQ(plan->segments[6].begin, 5);
  EXPECT_EQ(plan->segments[6].end, PlannedSegment::kOpenEnd);
  EXPECT_EQ(plan->segments[6].position_offset, 10);
  EXPECT_EQ(plan->segments[6].lag, 1);
}

TEST(MergePlanTest, TheWholeTailMayOpenTheAnswer) {
  MergeInput input = two_documents();
  input.opening_tokens = 100;
  MergeSource draft{.name = "a", .layer_gain = {0}};
  draft.draft_end = 4;
  input.sources = {draft};
  const auto plan = plan_merge(input);
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->own.size(), 2u);
  EXPECT_EQ(plan->own[1].begin, 3);
  EXPECT_EQ(plan->own[1].position_offset, 4);
  input.head_ids.clear();
  EXPECT_EQ(plan_merge(input)->own.size(), 1u);
  EXPECT_EQ(plan_merge(input)->own[0].position_offset, 4);
  input.max_positions = 9;
  EXPECT_FALSE(plan_merge(input).has_value()) << "a draft needs positions too";
  input.max_positions = 10;
  EXPECT_TRUE(plan_merge(input).has_value());
  input.sources[0].draft_begin = -1;
  EXPECT_FALSE(plan_merge(input).has_value());
}

TEST(MergePlanTest, ADraftComesBesideATransferredText) {
  MergeInput input = two_documents();
  input.tail_ids = {7, 8, 9};
  MergeSource draft{.name = "a", .layer_gain = {0}};
  draft.draft_begin = 21;
  draft.draft_end = 25;
  input.sources = {{.name = "a", .layer_gain = {0}, .transfer_end = 18}, draft};
  const auto plan = plan_merge(input);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  ASSERT_EQ(plan->segments.size(), 2u);
  EXPECT_EQ(plan->segments[1].position_offset, 20 - 21);
  ASSERT_EQ(plan->own.size(), 3u);
  EXPECT_EQ(plan->own[2].begin, 5);
  EXPECT_EQ(plan->own[2].position_offset, 15 + 4);
  EXPECT_EQ(plan->first_new_position, 25);
}

}  // namespace
}  // namespace suture
