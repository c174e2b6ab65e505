#include "launcher/eval/arm_input.h"

#include <gtest/gtest.h>

#include <variant>

#include "launcher/eval/eval_prompt.h"
#include "launcher/eval/test_eval.h"

namespace suture::eval_test {
namespace {

const EvalTask kReport = MultidocItem{.lang = "en",
                                      .kind = "fact",
                                      .documents = {"first", "second", "third"},
                                      .question = "Which one?",
                                      .answer = "the second",
                                      .expect = {{{"second"}}}};
const EvalTask kOther = MultidocItem{.lang = "en",
                                     .kind = "fact",
                                     .documents = {"other"},
                                     .question = "Who?",
                                     .answer = "he",
                                     .expect = {{{"he"}}}};
const EvalTask kSum = NumberItem{.question = "1 + 1?", .number = "2"};
const EvalTask kProduct = NumberItem{.question = "3 x 3?", .number = "9"};

using Documents = std::vector<SlaveDocuments>;

TEST(ArmInputTest, DocumentsAreDealtOutToPrefixSlaves) {
  const LaunchSpec spec = topology({prefix("a"), aligned("twin"), prefix("b")});
  EXPECT_EQ(deal_documents(spec, kReport),
            (Documents{{"a", {"first", "third"}}, {"b", {"second"}}}));
  EXPECT_EQ(deal_documents(spec, kOther), (Documents{{"a", {"other"}}}));
  EXPECT_EQ(deal_documents(spec, kSum), (Documents{{"a", {question_text(kSum)}}}));
  EXPECT_TRUE(deal_documents(topology({aligned("twin")}), kReport).empty());
}

TEST(ArmInputTest, WhoReadsWhatOfDocuments) {
  const LaunchSpec spec = topology({prefix("a"), prefix("b")});
  const auto input = [&](ArmKind kind) {
    return arm_input(spec, {.kind = kind}, kReport, kOther, {"I say second."});
  };
  for (const ArmKind kind : {ArmKind::kMasterAlone, ArmKind::kReadsAll, ArmKind::kSlaveAlone,
                             ArmKind::kHandOff, ArmKind::kStitched, ArmKind::kShuffled})
    EXPECT_TRUE(std::get<MultidocItem>(input(kind).task).documents.empty());
  EXPECT_EQ(input(ArmKind::kMasterAlone).context, "");
  EXPECT_TRUE(input(ArmKind::kMasterAlone).slave_texts.documents.empty());
  EXPECT_EQ(input(ArmKind::kReadsAll).context, "first\n\nsecond\n\nthird");
  EXPECT_EQ(input(ArmKind::kSlaveAlone).context, "first\n\nsecond\n\nthird");
  EXPECT_EQ(input(ArmKind::kHandOff).context, "Another assistant answers: I say second.");
  EXPECT_EQ(input(ArmKind::kStitched).context, "");
  EXPECT_EQ(input(ArmKind::kStitched).slave_texts.documents, deal_documents(spec, kReport));
  EXPECT_EQ(input(ArmKind::kShuffled).context, "");
  EXPECT_EQ(input(ArmKind::kShuffled).slave_texts.documents, deal_documents(spec, kOther));
  EXPECT_EQ(input(ArmKind::kShuffled).slave_texts.aligned_text, "");
}

// Everybody reads the same, but for the control.
TEST(ArmInputTest, WhoReadsWhatBesideAnAlignedSlave) {
  const LaunchSpec spec = topology({aligned("twin")});
  const ArmInput alone = arm_input(spec, {}, kReport, kOther, {});
  EXPECT_EQ(alone.context, "first\n\nsecond\n\nthird");
  const ArmInput stitched = arm_input(spec, {.kind = ArmKind::kStitched}, kReport, kOther, {});
  EXPECT_EQ(stitched.context, alone.context);
  EXPECT_EQ(stitched.slave_texts.aligned_text, "");
  const ArmInput shuffled = arm_input(spec, {.kind = ArmKind::kShuffled}, kReport, kOther, {});
  EXPECT_EQ(shuffled.context, alone.context);
  EXPECT_EQ(shuffled.slave_texts.aligned_text, "other\n\n" + question_text(kOther));
  const ArmInput sum = arm_input(spec, {.kind = ArmKind::kShuffled}, kSum, kProduct, {});
  EXPECT_EQ(sum.slave_texts.aligned_text, question_text(kProduct));
}

TEST(ArmInputTest, APassageIsAChoiceItemsDocument) {
  const EvalTask choice = ChoiceItem{
      .passage = "It rained.", .question = "What was it?", .options = {"wet", "dry"}, .answer = 0};
  const LaunchSpec spec = topology({prefix("a")});
  const ArmInput stitched = arm_input(spec, {.kind = ArmKind::kStitched}, choice, choice, {});
  EXPECT_EQ(stitched.slave_texts.documents, (Documents{{"a", {"It rained."}}}));
  EXPECT_EQ(std::get<ChoiceItem>(stitched.task).passage, "");
  EXPECT_EQ(arm_input(spec, {.kind = ArmKind::kReadsAll}, choice, choice, {}).context,
            "It rained.");
}

}  // namespace
}  // namespace suture::eval_test
