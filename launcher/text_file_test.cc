#include "launcher/text_file.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace suture {
namespace {

TEST(TextFileTest, ReadsTheWholeFile) {
  const TestFolder folder;
  const auto text = read_text_file(folder.write("a.txt", "naïve 你好"), 100);
  ASSERT_TRUE(text.has_value()) << text.error().message();
  EXPECT_EQ(*text, "naïve 你好");
}

TEST(TextFileTest, RefusesWhatIsMissingTooLongOrNoFile) {
  const TestFolder folder;
  EXPECT_EQ(read_file(folder.path() / "none", 10).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_file(folder.write("long", "12345678901"), 10).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_file(folder.path(), 10).error().code, ErrorCode::kInvalidArgument);
}

TEST(TextFileTest, NamesTheFirstByteThatIsNotUtf8) {
  const TestFolder folder;
  const auto text = read_text_file(folder.write("latin1.txt", "caf\xE9!"), 100);
  ASSERT_FALSE(text.has_value());
  EXPECT_NE(text.error().what.find("byte 3 (0xE9)"), std::string::npos) << text.error().what;
}

TEST(TextFileTest, AnUnfinishedCharacterIsNotUtf8) {
  EXPECT_FALSE(check_utf8("\xE4\xBD", "x").has_value());
  EXPECT_TRUE(check_utf8("\xE4\xBD\xA0", "x").has_value());
}

}  // namespace
}  // namespace suture
