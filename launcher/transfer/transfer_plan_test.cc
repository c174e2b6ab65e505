#include "launcher/transfer/transfer_plan.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace suture {
namespace {

// Text i has the tokens 1000 i, 1000 i + 1, ...
std::vector<TokenText> texts(const std::vector<int64_t>& sizes) {
  std::vector<TokenText> texts;
  for (size_t i = 0; i < sizes.size(); ++i) {
    TokenText& text = texts.emplace_back();
    text.kind = i % 2 == 0 ? "even" : "odd";
    text.ids.resize(static_cast<size_t>(sizes[i]));
    std::iota(text.ids.begin(), text.ids.end(), static_cast<int32_t>(1000 * i));
  }
  return texts;
}

std::vector<int32_t> counted(int32_t first, size_t size) {
  std::vector<int32_t> ids(size);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

TEST(TransferPlanTest, TextsAreCutBehindTheContextAndPairedWithAnother) {
  const auto plans =
      plan_transfer(texts({30, 12, 25, 40, 10}), {.lengths = {8, 20}, .continued = 4}).value();
  ASSERT_EQ(plans.size(), 2u);
  ASSERT_EQ(plans[0].passages.size(), 4u);  // the last text is too short by two
  ASSERT_EQ(plans[1].passages.size(), 3u);
  EXPECT_FALSE(plans[0].joined);
  for (const LengthPlan& plan : plans) {
    std::set<int32_t> others;
    const auto size = static_cast<size_t>(plan.tokens);
    EXPECT_EQ(plan.timed, plan.passages[0].context);
    for (const Passage& passage : plan.passages) {
      const int32_t text = passage.context.front();
      EXPECT_EQ(passage.context, counted(text, size));
      EXPECT_EQ(passage.continuation, counted(text + static_cast<int32_t>(size), 4));
      EXPECT_EQ(passage.kind, text / 1000 % 2 == 0 ? "even" : "odd");
      EXPECT_NE(passage.other.front(), text);
      EXPECT_EQ(passage.other, counted(passage.other.front(), size));
      others.insert(passage.other.front());
    }
    EXPECT_EQ(others.size(), plan.passages.size());  // each is the other text of one
  }
}

TEST(TransferPlanTest, WhatTheTargetPutsBeforeATextCounts) {
  const auto plans =
      plan_transfer(texts({11, 10}), {.lengths = {8}, .continued = 4, .head = 1}).value();
  ASSERT_EQ(plans[0].passages.size(), 1u);  // seven of the text and four after them
  EXPECT_EQ(plans[0].passages[0].context, counted(0, 7));
  EXPECT_EQ(plans[0].passages[0].continuation, counted(7, 4));
}

TEST(TransferPlanTest, TheOnlyTextOfItsLengthIsControlledByTheOthersJoined) {
  const auto plans = plan_transfer(texts({3, 20, 2}), {.lengths = {8}, .continued = 4}).value();
  ASSERT_EQ(plans[0].passages.size(), 1u);
  EXPECT_EQ(plans[0].passages[0].context, counted(1000, 8));
  EXPECT_EQ(plans[0].passages[0].other, (std::vector<int32_t>{2000, 2001, 0, 1, 2, 2000, 2001, 0}));
}

TEST(TransferPlanTest, LengthsThatNoTextReachesAreTimedOnJoinedTexts) {
  const auto plans = plan_transfer(texts({3, 9}), {.lengths = {8, 16}, .continued = 1}).value();
  EXPECT_FALSE(plans[0].joined);
  EXPECT_TRUE(plans[1].joined);
  EXPECT_TRUE(plans[1].passages.empty());
  EXPECT_EQ(plans[1].timed, (std::vector<int32_t>{0, 1, 2, 1000, 1001, 1002, 1003, 1004, 1005, 1006,
                                                  1007, 1008, 0, 1, 2, 1000}));
}

TEST(TransferPlanTest, ALimitDrawsBySeed) {
  const std::vector<TokenText> all = texts(std::vector<int64_t>(40, 10));
  const auto first = [&](uint64_t seed) {
    std::vector<int32_t> ids;
    const auto plans =
        plan_transfer(all, {.lengths = {4}, .continued = 2, .limit = 5, .seed = seed}).value();
    for (const Passage& passage : plans[0].passages) ids.push_back(passage.context.front());
    return ids;
  };
  EXPECT_EQ(first(1).size(), 5u);
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
}

TEST(TransferPlanTest, OneTextHasNoOther) {
  EXPECT_EQ(plan_transfer(texts({40}), {.lengths = {8}}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(plan_transfer(texts({40, 0}), {.lengths = {8}}));
}

}  // namespace
}  // namespace suture
