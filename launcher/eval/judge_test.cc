#include "launcher/eval/judge.h"

#include <gtest/gtest.h>

#include <optional>
#include <variant>

#include "launcher/eval/eval_prompt.h"

namespace suture {
namespace {

const ChoiceItem kChoice{
    .passage = {}, .question = "What was it?", .options = {"wet", "very dry", "cold"}, .answer = 1};

// Scores what it is asked for by a rule, and remembers the question.
class JudgeTest : public testing::Test {
 protected:
  Subject scorer(const std::vector<std::vector<float>>& logprobs) {
    Subject subject;
    subject.score = [this, logprobs](const ScoreOptions& options) -> Result<Scoring> {
      scored_ = options;
      Scoring scoring;
      for (const auto& option : logprobs) {
        ScoredContinuation& continuation = scoring.continuations.emplace_back();
        for (const float logprob : option) continuation.tokens.push_back({0, logprob, false});
      }
      return scoring;
    };
    return subject;
  }
  Subject speaker(const std::string& text, FinishReason reason = FinishReason::kStop) {
    Subject subject;
    subject.ask = [this, text, reason](const AskOptions& options) -> Result<Answer> {
      asked_ = options;
      Answer answer;
      answer.text = text;
      answer.reason = reason;
      answer.degraded = {{"slave", 0, "gone"}};
      return answer;
    };
    return subject;
  }
  ScoreOptions scored_;
  AskOptions asked_;
};

TEST_F(JudgeTest, TextsAreComparedPerTokenAndLettersAsAWhole) {
  const ArmInput input{"A passage.", kChoice, {.documents = {{"a", {"document"}}}}};
  // Sums -2, -3, -5; means -2, -1, -5.
  const Subject subject = scorer({{-2}, {-1, -1, -1}, {-5}});
  const Judgement text = judge(subject, Metric::kOptionText, input, {}).value();
  EXPECT_EQ(text.answer, "B");
  EXPECT_EQ(text.score, 1);
  EXPECT_EQ(scored_.continuations, (std::vector<std::string>{"wet", "very dry", "cold"}));
  EXPECT_EQ(scored_.text.find("A passage.\n\nQuestion: What was it?"), 0u) << scored_.text;
  EXPECT_EQ(scored_.slave_texts.documents, input.slave_texts.documents);
  const Judgement letter = judge(subject, Metric::kOptionLetter, input, {}).value();
  EXPECT_EQ(letter.answer, "A");
  EXPECT_EQ(letter.score, 0);
  EXPECT_EQ(scored_.continuations, (std::vector<std::string>{"A", "B", "C"}));
}

TEST_F(JudgeTest, ANumberIsTheLastOne) {
  const ArmInput input{"", NumberItem{.question = "How many?", .number = "18"}, {}};
  JudgeOptions options;
  options.ask.max_tokens = 77;
  const Judgement right = judge(speaker("12 + 6 = 18."), Metric::kNumber, input, options).value();
  EXPECT_EQ(right.score, 1);
  EXPECT_TRUE(right.degraded);
  EXPECT_EQ(asked_.max_tokens, 77);
  EXPECT_EQ(asked_.text, question_text(input.task));
  EXPECT_FALSE(right.cut_short);
  EXPECT_EQ(judge(speaker("18 or 19"), Metric::kNumber, input, options)->score, 0);
  EXPECT_TRUE(
      judge(speaker("12 + 6", FinishReason::kLength), Metric::kNumber, input, options)->cut_short);
  const auto cancelled =
      judge(speaker("18", FinishReason::kCancelled), Metric::kNumber, input, options);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
}

TEST_F(JudgeTest, FactsCountByTheirShare) {
  MultidocItem item;
  item.question = "Who and when?";
  item.expect = {{{"Ann"}}, {{"1911", "nineteen eleven"}}};
  const ArmInput input{"The documents.", item, {}};
  EXPECT_EQ(judge(speaker("ann, in nineteen eleven"), Metric::kFacts, input, {})->score, 1);
  EXPECT_EQ(judge(speaker("Ann, I think"), Metric::kFacts, input, {})->score, 0.5);
  EXPECT_EQ(asked_.text, "The documents.\n\n" + question_text(input.task));
}

TEST_F(JudgeTest, ATextCountsByTheLikelihoodOfATokenOfItsSecondHalf) {
  const ArmInput input{"", TextItem{.read = "It was", .rest = " very dry."}, {{}, "another"}};
  const Judgement judged = judge(scorer({{-1, -2, -6}}), Metric::kLikelihood, input, {}).value();
  EXPECT_EQ(judged.score, -3);
  EXPECT_EQ(scored_.continuations, std::vector<std::string>{"very dry."});
  EXPECT_TRUE(scored_.text.ends_with("\n\nIt was")) << scored_.text;
  EXPECT_EQ(scored_.slave_texts.aligned_text, "another");
}

TEST_F(JudgeTest, AProgramPassesItsTest) {
  const auto sandbox = PythonSandbox::create();
  if (!sandbox) GTEST_SKIP() << sandbox.error().message();
  CodeItem item;
  item.prompt = "def twice(x):\n";
  item.entry_point = "twice";
  item.test = "def check(candidate):\n    assert candidate(4) == 8\n";
  const ArmInput input{"", item, {}};
  const JudgeOptions options{.ask = {}, .sandbox = &*sandbox};
  EXPECT_EQ(judge(speaker("    return 2 * x\n"), Metric::kProgram, input, options)->score, 1);
  EXPECT_EQ(judge(speaker("    return x\n"), Metric::kProgram, input, options)->score, 0);
}

}  // namespace
}  // namespace suture
