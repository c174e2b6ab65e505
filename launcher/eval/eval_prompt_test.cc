#include "launcher/eval/eval_prompt.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(EvalPromptTest, OptionsByLetter) {
  const ChoicePrompt prompt =
      choice_by_letter({"A passage.", "What is it?", {"a cat", "a dog"}, 1});
  EXPECT_EQ(prompt.text, "A passage.\n\nQuestion: What is it?\nA. a cat\nB. a dog\nAnswer:");
  EXPECT_EQ(prompt.continuations, (std::vector<std::string>{" A", " B"}));
}

TEST(EvalPromptTest, OptionsByText) {
  const ChoicePrompt prompt = choice_by_text({"", "What is it?", {"a cat", "a dog"}, 1});
  EXPECT_EQ(prompt.text, "Question: What is it?\nAnswer:");
  EXPECT_EQ(prompt.continuations, (std::vector<std::string>{" a cat", " a dog"}));
}

TEST(EvalPromptTest, ChineseItemsAreAskedInChinese) {
  const ChoiceItem item{"", "哪一项正确？", {"①②", "③④"}, 0};
  EXPECT_EQ(choice_by_letter(item).text, "问题：哪一项正确？\nA. ①②\nB. ③④\n答案：");
  EXPECT_EQ(choice_by_letter(item).continuations, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(choice_by_text(item).continuations, (std::vector<std::string>{"①②", "③④"}));
  EXPECT_NE(question_text(item).find("字母"), std::string::npos);
}

TEST(EvalPromptTest, QuestionsInWordsOfOnesOwn) {
  EXPECT_NE(question_text(NumberItem{"How many?", "3"}).find("How many?"), std::string::npos);
  EXPECT_EQ(question_text(NumberItem{"How many?", "31415"}).find("31415"), std::string::npos);
  EXPECT_NE(question_text(CodeItem{"def f():\n", "f", "", ""}).find("```python\ndef f():\n```"),
            std::string::npos);
  const MultidocItem multidoc{"en", "fact", {"First.", "Second."}, "Which?", "First", {}};
  EXPECT_EQ(question_text(multidoc).find("First"), std::string::npos);
  EXPECT_EQ(context_text(multidoc), "First.\n\nSecond.");
  EXPECT_EQ(context_text(NumberItem{"How many?", "3"}), "");
}

}  // namespace
}  // namespace suture
