#include "actors/text_parts.h"

#include <gtest/gtest.h>

#include <vector>

namespace suture {
namespace {

TEST(TextPartsTest, AlternatesBetweenPromptsAndAnswers) {
  const std::vector<AnswerRun> answers = {{10, 14}, {20, 20}, {30, 40}};
  EXPECT_EQ(part_at(answers, 0, 50), (TextPart{10, false}));
  EXPECT_EQ(part_at(answers, 10, 50), (TextPart{14, true}));
  EXPECT_EQ(part_at(answers, 12, 50), (TextPart{14, true}));
  EXPECT_EQ(part_at(answers, 14, 50), (TextPart{30, false}));  // the empty one is none
  EXPECT_EQ(part_at(answers, 30, 50), (TextPart{40, true}));
  EXPECT_EQ(part_at(answers, 40, 50), (TextPart{50, false}));
}

TEST(TextPartsTest, EndsWithTheText) {
  const std::vector<AnswerRun> answers = {{10, 14}};
  EXPECT_EQ(part_at(answers, 0, 5), (TextPart{5, false}));
  EXPECT_EQ(part_at(answers, 11, 12), (TextPart{12, true}));
  EXPECT_EQ(part_at({}, 0, 3), (TextPart{3, false}));
}

}  // namespace
}  // namespace suture
