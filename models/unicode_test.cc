#include "models/unicode.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(UnicodeTest, EveryCodePointSurvivesEncodingAndDecoding) {
  for (uint32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string text;
    append_utf8(code_point, text);
    const Utf8Character character = first_character(text + "x");
    ASSERT_EQ(character.status, Utf8Status::kValid) << code_point;
    ASSERT_EQ(character.bytes, text.size()) << code_point;
    ASSERT_EQ(character.code_point, code_point);
  }
}

TEST(UnicodeTest, MessagesShowOnlyWhatATerminalPrints) {
  EXPECT_EQ(printable("naïve 你"), "naïve 你");
  EXPECT_EQ(printable(std::string_view("a\0\x1b[2J\n", 7)), "a\\x00\\x1b[2J\\x0a");
  EXPECT_EQ(printable("\xC2\x9B\xFF"), "\\xc2\\x9b\\xff");
  EXPECT_EQ(printable(std::string(1000, 'x'), 5), "xxxxx...");
  EXPECT_EQ(printable(""), "");
}

TEST(UnicodeTest, OverlongSurrogateAndTooLargeFormsAreInvalid) {
  for (const char* text : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80",
                           "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80", "\xFF"}) {
    const Utf8Character character = first_character(text);
    EXPECT_EQ(character.status, Utf8Status::kInvalid) << text;
    EXPECT_EQ(character.bytes, 1u) << text;
  }
}

TEST(UnicodeTest, BrokenCharacterEndsBeforeTheByteThatBreaksIt) {
  const Utf8Character character = first_character(
      "\xE4\xB8"
      "a");
  EXPECT_EQ(character.status, Utf8Status::kInvalid);
  EXPECT_EQ(character.bytes, 2u);
}

TEST(UnicodeTest, StartOfACharacterIsIncomplete) {
  const std::string face = "\xF0\x9F\x98\x80";
  for (size_t length = 1; length < face.size(); ++length) {
    const Utf8Character character = first_character(face.substr(0, length));
    EXPECT_EQ(character.status, Utf8Status::kIncomplete) << length;
    EXPECT_EQ(character.bytes, length);
  }
}

TEST(UnicodeTest, WholeCharactersLeaveOutTheUnfinishedEnd) {
  EXPECT_EQ(whole_characters(""), 0u);
  EXPECT_EQ(whole_characters("a\xE4\xB8\xAD"), 4u);
  EXPECT_EQ(whole_characters("a\xE4\xB8"), 1u);
  EXPECT_EQ(whole_characters("\xF0\x9F\x98"), 0u);
  EXPECT_EQ(whole_characters("\xF0\x9F\xE4"), 2u);
  EXPECT_EQ(whole_characters("a\xB8"), 2u);
  EXPECT_EQ(whole_characters("\xC0"), 1u);
}

TEST(UnicodeTest, DrainKeepsTheUnfinishedEnd) {
  std::string text = "a\xFF\xE4\xB8\xAD\xE6\x96";
  std::string out;
  drain_valid_utf8(text, out);
  EXPECT_EQ(out, "a\xEF\xBF\xBD\xE4\xB8\xAD");
  EXPECT_EQ(text, "\xE6\x96");
}

}  // namespace
}  // namespace suture
