#include "actors/hand_off.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(HandOffTest, AnswersStandBeforeTheQuestionOneALine) {
  EXPECT_EQ(with_context(handed_over({"It is 27.", "Three."}), "How many?"),
            "Another assistant answers: It is 27.\nAnother assistant answers: Three.\n\nHow many?");
}

TEST(HandOffTest, WithoutAnswersTheQuestionStandsAlone) {
  EXPECT_EQ(with_context(handed_over({}), "How many?"), "How many?");
}

}  // namespace
}  // namespace suture
