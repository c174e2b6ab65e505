#include "launcher/eval/eval_set.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace suture {
namespace {

Result<EvalSet> load(const std::string& text) {
  const TestFolder folder;
  return load_eval_set(folder.write("set.jsonl", text));
}

TEST(EvalSetTest, KnowsMultipleChoiceByItsOptions) {
  const auto set = load(
      "{\"passage\":\"p\",\"question\":\"q\",\"options\":[\"a\",\"b\"],\"answer\":1}\n\n"
      "{\"question\":\"r\",\"options\":[\"c\",\"d\",\"e\"],\"answer\":0}");
  ASSERT_TRUE(set.has_value()) << set.error().message();
  EXPECT_EQ(set->name, "set");
  ASSERT_EQ(set->items.size(), 2u);
  EXPECT_EQ(set->items[0].id, "set:1");
  EXPECT_EQ(set->items[1].id, "set:3");
  EXPECT_EQ(task_kind_name(set->items[0].task), "multiple-choice");
  const auto& item = std::get<ChoiceItem>(set->items[0].task);
  EXPECT_EQ(item.passage, "p");
  EXPECT_EQ(item.options[item.answer], "b");
}

TEST(EvalSetTest, KnowsNumbersByTheirAnswer) {
  const auto set = load(
      "{\"question\":\"q\",\"answer\":\"2 + 3 = 5\\n#### 1,005\"}\n"
      "{\"question\":\"q\",\"answer\":\"7.0\"}");
  ASSERT_TRUE(set.has_value()) << set.error().message();
  EXPECT_EQ(std::get<NumberItem>(set->items[0].task).number, "1005");
  EXPECT_EQ(std::get<NumberItem>(set->items[1].task).number, "7");
  EXPECT_EQ(task_kind_name(set->items[0].task), "exact-match");
}

TEST(EvalSetTest, KnowsCodeByItsEntryPoint) {
  const auto set = load(
      "{\"task_id\":\"T/1\",\"prompt\":\"def f():\",\"entry_point\":\"f\","
      "\"canonical_solution\":\"\",\"test\":\"t\"}");
  ASSERT_TRUE(set.has_value()) << set.error().message();
  EXPECT_EQ(set->items[0].id, "T/1");
  EXPECT_EQ(std::get<CodeItem>(set->items[0].task).entry_point, "f");
}

TEST(EvalSetTest, KnowsMultidocByItsDocuments) {
  const auto set = load(
      "{\"id\":\"m\",\"lang\":\"en\",\"kind\":\"fact\",\"documents\":[\"a\",\"b\"],"
      "\"question\":\"q\",\"answer\":\"x\",\"expect\":[\"x\",[\"7\",\"seven\"]]}");
  ASSERT_TRUE(set.has_value()) << set.error().message();
  const auto& item = std::get<MultidocItem>(set->items[0].task);
  EXPECT_EQ(item.documents.size(), 2u);
  EXPECT_EQ(item.expect[1].spellings.size(), 2u);
}

TEST(EvalSetTest, CutsTextsInTheMiddleBetweenWordsOrCharacters) {
  const auto set = load(
      "{\"text\":\"one two three four\",\"kind\":\"numbers\"}\n"
      "{\"text\":\"一二三四五\"}\n"
      "{\"text\":\"a bcdefghijklmnop\"}");
  ASSERT_TRUE(set.has_value()) << set.error().message();
  EXPECT_EQ(task_kind_name(set->items[0].task), "text");
  const auto halves = [&](size_t i) {
    const auto& item = std::get<TextItem>(set->items[i].task);
    return std::pair{item.read, item.rest};
  };
  EXPECT_EQ(halves(0), std::pair(std::string("one two"), std::string(" three four")));
  EXPECT_EQ(halves(1), std::pair(std::string("一二"), std::string("三四五")));
  EXPECT_EQ(halves(2), std::pair(std::string("a bcdefg"), std::string("hijklmnop")));
  for (const char* bad : {R"({"text":"x"})", R"({"text":"一"})", R"({"text":""})"})
    EXPECT_FALSE(load(bad).has_value()) << bad;
}

TEST(EvalSetTest, NamesTheLineThatIsWrong) {
  const std::string fine = "{\"question\":\"q\",\"options\":[\"a\",\"b\"],\"answer\":1}\n";
  for (const char* bad : {"nonsense",
                          "[]",
                          "{}",
                          "{\"question\":\"q\"}",
                          "{\"text\":\"calibration\"}",
                          R"({"question":"q","options":["a"],"answer":0})",
                          R"({"question":"q","options":["a","b"],"answer":2})",
                          R"({"question":"q","options":["a","b"],"answer":-1})",
                          R"({"question":"q","options":["a","b"],"answer":0.5})",
                          R"({"question":"q","options":["a","b"],"answer":18446744073709551617})",
                          R"({"question":"q","options":["a","b"],"answer":"0"})",
                          R"({"question":"q","options":["a",2],"answer":0})",
                          R"({"question":"q","options":["a",""],"answer":0})",
                          R"({"question":"q","options":"ab","answer":0})",
                          R"({"question":"","options":["a","b"],"answer":0})",
                          R"({"question":"q","passage":1,"options":["a","b"],"answer":0})",
                          R"({"id":7,"question":"q","options":["a","b"],"answer":0})",
                          R"({"question":"another kind","answer":"1"})",
                          R"({"question":"q","answer":"none"})",
                          R"({"question":"\ud800","options":["a","b"],"answer":0})"}) {
    const auto set = load(fine + bad + "\n");
    ASSERT_FALSE(set.has_value()) << bad;
    EXPECT_NE(set.error().where.find("set.jsonl:2"), std::string::npos) << set.error().message();
  }
}

TEST(EvalSetTest, BoundsWhatALineMayTake) {
  for (const size_t bytes : {size_t{1} << 20, (size_t{1} << 20) + 1})
    EXPECT_FALSE(load(std::string(bytes, '[')).has_value());
  EXPECT_NE(load(std::string(2 << 20, '[')).error().what.find("longer"), std::string::npos);
  EXPECT_NE(load(std::string(17 << 20, ' ')).error().what.find("longer"), std::string::npos);
}

TEST(EvalSetTest, RefusesWhatIsNoSet) {
  EXPECT_FALSE(load("\n \n").has_value());
  EXPECT_EQ(load_eval_set("no-such-file.jsonl").error().code, ErrorCode::kNotFound);
  const std::string item = R"({"id":"same","question":"q","options":["a","b"],"answer":1})"
                           "\n";
  EXPECT_NE(load(item + item).error().what.find("same"), std::string::npos);
  const std::string multidoc =
      R"({"id":"m","lang":"en","kind":"fact","documents":["a"],"question":"q","answer":"x")";
  EXPECT_FALSE(load(multidoc + "}").has_value());
  EXPECT_FALSE(load(multidoc + R"(,"expect":[]})").has_value());
  EXPECT_TRUE(load(multidoc + R"(,"expect":["x"]})").has_value());
}

}  // namespace
}  // namespace suture
