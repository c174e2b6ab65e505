#include "launcher/eval/answer_reading.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(AnswerReadingTest, LastNumberInOneSpelling) {
  struct Case {
    const char* text;
    const char* number;
  };
  for (const auto& [text, number] :
       {Case{"so 72 - 54 = 18.", "18"}, Case{"Answer: $1,250.50", "1250.5"},
        Case{"It is -007", "-7"}, Case{"5-3", "3"}, Case{"(4)-3", "3"}, Case{"12 km/h", "12"},
        Case{"1,2,3", "3"}, Case{"12,345,678 people", "12345678"}, Case{"1,2345", "2345"},
        Case{"0.50", "0.5"}, Case{"-0.0", "0"}, Case{"18.00", "18"}, Case{"costs -$5", "-5"},
        Case{"答案：42个", "42"}, Case{"v1.2.3", "3"}, Case{"000", "0"}})
    EXPECT_EQ(last_number(text), number) << text;
  EXPECT_EQ(last_number("none at all"), std::nullopt);
  EXPECT_EQ(last_number(""), std::nullopt);
}

TEST(AnswerReadingTest, ChosenOptionWhereItIsClear) {
  struct Case {
    const char* text;
    std::optional<size_t> option;
  };
  for (const auto& [text, option] :
       {Case{"B", 1}, Case{"(C) because", 2}, Case{"The answer is D.", 3}, Case{"**A**", 0},
        Case{"A is wrong. Answer: B", 1}, Case{"答案：C", 2}, Case{"正确答案是B。", 1},
        Case{"A good guess would be (B)", {}}, Case{"I choose C", 2}, Case{"A或B", 0},
        Case{"Between B and C", {}}, Case{"E", {}}, Case{"", {}}, Case{"a", {}},
        Case{"Because of DNA", {}}, Case{"D. the fourth", 3}})
    EXPECT_EQ(chosen_option(text, 4), option) << text;
  EXPECT_EQ(chosen_option("E", 5), 4u);
}

TEST(AnswerReadingTest, CompletionEndsWithItsFunction) {
  EXPECT_EQ(cut_completion("    return 1\n\ndef other():\n"), "    return 1\n");
  EXPECT_EQ(cut_completion("    x = 1\n    # kept\n    return x\n# end"),
            "    x = 1\n    # kept\n    return x");
  EXPECT_EQ(cut_completion("    return 1\n```\nThis"), "    return 1");
  EXPECT_EQ(cut_completion("    return 1"), "    return 1");
}

const CodeItem kItem = {"import math\n\ndef one():\n    \"\"\"Returns 1.\"\"\"\n", "one",
                        "    return 1\n", "def check(candidate):\n    assert candidate() == 1\n"};
constexpr std::string_view kJudge =
    "\ndef check(candidate):\n    assert candidate() == 1\n\ncheck(one)\n";

TEST(AnswerReadingTest, CodeProgramContinuesThePrompt) {
  EXPECT_EQ(code_program(kItem, "    return 1\nprint(one())"),
            kItem.prompt + "    return 1" + std::string(kJudge));
}

TEST(AnswerReadingTest, CodeProgramTakesAWholeFunctionFromABlock) {
  EXPECT_EQ(code_program(kItem, "Here:\n```python\ndef one():\n    return 1\n```\nDone."),
            "import math\n\n\ndef one():\n    return 1\n" + std::string(kJudge));
  // A block that goes on where the prompt ends.
  EXPECT_EQ(code_program(kItem, "    return 1\n```\n"),
            kItem.prompt + "    return 1" + std::string(kJudge));
}

}  // namespace
}  // namespace suture
