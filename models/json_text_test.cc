#include "models/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_folder.h"

namespace suture {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  const auto value = parse_json(text, "test.json");
  if (value) return "";
  EXPECT_EQ(value.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(value.error().where, "test.json");
  return value.error().what;
}

std::string nested(size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

TEST(JsonTextTest, ReadsWhatIsWellFormed) {
  const auto value = parse_json(R"({"a": [1, {"b": null, "a": "x"}], "c": {"b": 2}})", "test.json");
  ASSERT_TRUE(value) << value.error().message();
  EXPECT_EQ(value->at("a").at(1).at("a"), "x");
  EXPECT_EQ(value->at("c").at("b"), 2);
  EXPECT_TRUE(parse_json(nested(64), "test.json"));
}

TEST(JsonTextTest, SaysWhereTheTextIsMalformed) {
  EXPECT_EQ(refusal(R"({"a": })"), "malformed JSON at byte 7 of 7");
  EXPECT_THAT(refusal(""), HasSubstr("malformed JSON"));
  EXPECT_THAT(refusal("[1] 2"), HasSubstr("byte 5 of 5"));
  EXPECT_THAT(refusal("[\"\xff\"]"), HasSubstr("malformed JSON"));
  EXPECT_THAT(refusal("[1e999]"), HasSubstr("1e999"));
}

TEST(JsonTextTest, RefusesANameThatAppearsTwice) {
  EXPECT_EQ(refusal(R"({"a": 1, "b": {"a": 2}, "a": 3})"),
            "the name 'a' appears twice in one JSON object");
  EXPECT_EQ(refusal(R"([{"x": {"\u001b": 1, "\u001b": 2}}])"),
            "the name '\\x1b' appears twice in one JSON object");
}

TEST(JsonTextTest, RefusesDeepNesting) {
  EXPECT_EQ(refusal(nested(65)), "JSON is nested deeper than 64 levels");
  EXPECT_EQ(refusal(nested(1'000'000)), "JSON is nested deeper than 64 levels");
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), HasSubstr("malformed JSON"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_THAT(refusal(objects), HasSubstr("malformed JSON"));
}

TEST(JsonTextTest, FilesHoldOneObjectOfBoundedSize) {
  const TestFolder folder;
  const auto object = folder.write("object.json", R"({"a": 1})");
  ASSERT_TRUE(read_json_object(object, 8));
  EXPECT_EQ(read_json_object(object, 7).error().what, "the file has 8 bytes, expected at most 7");
  const auto list = folder.write("list.json", "[1, 2]");
  EXPECT_EQ(read_json_object(list, 100).error().what, "this is [1,2], expected a JSON object");
  EXPECT_EQ(read_json_object(folder.path() / "none", 100).error().code, ErrorCode::kIo);
}

TEST(JsonTextTest, ValuesInMessagesAreShortAndPrintable) {
  EXPECT_EQ(json_text(json::parse(R"({"a": [1, "x"]})")), R"({"a":[1,"x"]})");
  EXPECT_LE(json_text(json(std::string(10'000, 'x'))).size(), 100u);
  EXPECT_EQ(json_text(json("\xff")), "\"\uFFFD\"");
}

}  // namespace
}  // namespace suture
