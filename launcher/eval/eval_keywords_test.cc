#include "launcher/eval/eval_keywords.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "launcher/eval/test_eval.h"

namespace suture::eval_test {
namespace {

TEST(EvalKeywordsTest, AreLookedForInEverythingThatIsRead) {
  const TestFolder folder;
  LaunchSpec spec = topology({prefix("a")});
  spec.models[1].documents = {folder.write("log.txt", "The ferry came in.")};
  const std::vector<EvalSet> sets = {
      {"one", {{"1", NumberItem{.question = "How many boats?", .number = "3"}}}},
      {"two",
       {{"1", ChoiceItem{.passage = "It rained.", .question = "What?", .options = {"wet"}}}}},
      {"three", {{"1", MultidocItem{.documents = {"in the north"}, .question = "Where?"}}}}};
  for (const char* word : {"boats", "rain", "What", "wet", "north", "Where", "ferry", "brief"})
    EXPECT_TRUE(check_keywords({word}, sets, spec)) << word;
  const Status refused = check_keywords({"wet", "Wet"}, sets, spec);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().what.find("'Wet'"), std::string::npos) << refused.error().what;
}

}  // namespace
}  // namespace suture::eval_test
