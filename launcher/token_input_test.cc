#include "launcher/token_input.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace suture {
namespace {

using Ids = std::vector<int32_t>;

std::string error_of(std::string_view text) {
  const auto ids = parse_token_ids(text, 100, "ids.txt");
  return ids ? "" : ids.error().message();
}

TEST(TokenInputTest, AcceptsJsonAndWords) {
  EXPECT_EQ(parse_token_ids("[1, 2,99]", 100, "x").value(), (Ids{1, 2, 99}));
  EXPECT_EQ(parse_token_ids(" \n[7]\n", 100, "x").value(), (Ids{7}));
  EXPECT_EQ(parse_token_ids("1 2\t3\r\n0", 100, "x").value(), (Ids{1, 2, 3, 0}));
}

TEST(TokenInputTest, NamesTheEntryThatIsWrong) {
  EXPECT_NE(error_of("1 2 100").find("id 100 (entry 2) is outside the vocabulary of 100"),
            std::string::npos);
  EXPECT_NE(error_of("[1, -1]").find("id -1 (entry 1)"), std::string::npos);
  EXPECT_NE(error_of("1 2.5").find("entry 1 is not an id: '2.5'"), std::string::npos);
  EXPECT_NE(error_of("[1, \"2\"]").find("entry 1 is not an integer"), std::string::npos);
  EXPECT_NE(error_of("99999999999999999999").find("is not an id"), std::string::npos);
  EXPECT_NE(error_of("[18446744073709551615]").find("outside"), std::string::npos);
  EXPECT_NE(error_of("\xFF").find("<0xFF>"), std::string::npos);
}

TEST(TokenInputTest, RefusesWhatHoldsNoIds) {
  EXPECT_NE(error_of("").find("holds no ids"), std::string::npos);
  EXPECT_NE(error_of("[]").find("holds no ids"), std::string::npos);
  EXPECT_NE(error_of("[1, 2").find("not a JSON array"), std::string::npos);
  EXPECT_NE(error_of(std::string(100'000, '[')).find("not a JSON array"), std::string::npos);
}

TEST(TokenInputTest, ReadsAFile) {
  const TestFolder folder;
  EXPECT_EQ(read_token_ids(folder.write("ids", "5 6"), 10).value(), (Ids{5, 6}));
  EXPECT_EQ(read_token_ids(folder.path() / "none", 10).error().code, ErrorCode::kNotFound);
}

TEST(PrintablePieceTest, EscapesBytesThatAreNoCharacter) {
  EXPECT_EQ(printable_piece("naïve 你"), "naïve 你");
  EXPECT_EQ(printable_piece("\xE4\xBD"), "<0xE4><0xBD>");
  EXPECT_EQ(printable_piece("a\xFF"
                            "b"),
            "a<0xFF>b");
  EXPECT_EQ(printable_piece(""), "");
}

}  // namespace
}  // namespace suture
