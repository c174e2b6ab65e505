#include "launcher/question_set.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace suture {
namespace {

Result<std::vector<QuestionItem>> load(const std::string& text) {
  const TestFolder folder;
  return load_questions(folder.write("questions.jsonl", text));
}

TEST(QuestionSetTest, ReadsFactsAndTheirSpellings) {
  const auto items = load(
      "{\"question\": \"When?\", \"expect\": [\"1911\", [\"12 km\", \"twelve\"]]}\n\n"
      "{\"question\": \"Who?\"}\n");
  ASSERT_TRUE(items.has_value()) << items.error().message();
  ASSERT_EQ(items->size(), 2u);
  EXPECT_EQ((*items)[0].expect[1].spellings.size(), 2u);
  EXPECT_TRUE((*items)[1].expect.empty());
}

TEST(QuestionSetTest, NamesTheLineThatIsWrong) {
  for (const char* bad :
       {"nonsense", "{}", "{\"question\": 3}", "{\"question\":\"a\",\"expect\":1}",
        "{\"question\":\"a\",\"expect\":[[]]}", "{\"question\":\"a\",\"expect\":[\"\"]}"}) {
    const auto items = load("{\"question\": \"fine\"}\n" + std::string(bad) + "\n");
    ASSERT_FALSE(items.has_value()) << bad;
    EXPECT_NE(items.error().where.find("questions.jsonl:2"), std::string::npos)
        << items.error().message();
  }
  EXPECT_FALSE(load("\n \n").has_value());
  EXPECT_EQ(load_questions("no-such-file.jsonl").error().code, ErrorCode::kNotFound);
}

TEST(QuestionSetTest, FactsMatchInEitherCase) {
  const ExpectedFact fact{{"Eleven", "11"}};
  EXPECT_TRUE(holds_fact("It was eleven o'clock.", fact));
  EXPECT_TRUE(holds_fact("at 11", fact));
  EXPECT_FALSE(holds_fact("at ten", fact));
  EXPECT_TRUE(holds_fact("位于苏州河北岸", ExpectedFact{{"苏州河"}}));
}

TEST(QuestionSetTest, NumbersMatchAsAWhole) {
  const ExpectedFact fact{{"11"}};
  for (const char* holds : {"11", "at 11.", "11, 12", "11km", "(11)", "1911 or 11"})
    EXPECT_TRUE(holds_fact(holds, fact)) << holds;
  for (const char* lacks : {"1911", "119", "11.5", "3.11", "11,000", "2,011"})
    EXPECT_FALSE(holds_fact(lacks, fact)) << lacks;
  EXPECT_TRUE(holds_fact("共11人", fact));
}

}  // namespace
}  // namespace suture
