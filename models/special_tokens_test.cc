#include "models/special_tokens.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

using Found = std::vector<std::pair<size_t, int32_t>>;  // begin, id

Found find(const SpecialTokenFinder& finder, std::string_view text) {
  Found found;
  for (const auto& occurrence : finder.find(text)) {
    found.emplace_back(occurrence.begin, occurrence.id);
  }
  return found;
}

TEST(SpecialTokensTest, FindsEachOccurrenceInOrder) {
  const SpecialTokenFinder finder({{"<b>", 1}, {"<a>", 2}});
  EXPECT_EQ(find(finder, "x<a><b> <b>"), (Found{{1, 2}, {4, 1}, {8, 1}}));
  EXPECT_EQ(find(finder, "<a<b"), Found{});
  EXPECT_EQ(find(finder, ""), Found{});
}

TEST(SpecialTokensTest, LongerTokenWinsWhereTheyOverlap) {
  const SpecialTokenFinder finder({{"ab", 1}, {"bcd", 2}, {"a", 3}});
  EXPECT_EQ(find(finder, "abcd"), (Found{{0, 3}, {1, 2}}));
  EXPECT_EQ(find(finder, "abc"), (Found{{0, 1}}));
}

TEST(SpecialTokensTest, RunsAreCutFromTheLeftLongestFirst) {
  const SpecialTokenFinder finder({{"\n", 1}, {"\n\n", 2}, {"\n\n\n", 3}});
  EXPECT_EQ(find(finder, "\n\n\n\n\n"), (Found{{0, 3}, {3, 2}}));
}

TEST(SpecialTokensTest, ShorterTokenIsFoundWhereTheLongestDoesNotFit) {
  const SpecialTokenFinder finder({{"abc", 1}, {"cdef", 2}, {"ab", 3}, {"a", 4}});
  EXPECT_EQ(find(finder, "abcdef"), (Found{{0, 3}, {2, 2}}));
  EXPECT_EQ(find(finder, "abcabcdef"), (Found{{0, 1}, {3, 3}, {5, 2}}));
}

// All occurrences at once would be 16 million.
TEST(SpecialTokensTest, RunOfAMegabyteIsCut) {
  std::vector<std::string> runs;
  std::vector<SpecialTokenFinder::Token> tokens;
  for (int32_t length = 1; length <= 32; ++length) runs.emplace_back(length, '\n');
  for (const std::string& run : runs) tokens.push_back({run, static_cast<int32_t>(run.size())});
  EXPECT_EQ(SpecialTokenFinder(tokens).find(std::string(1 << 20, '\n')).size(), 1u << 15);
}

TEST(SpecialTokensTest, BytesAboveAsciiAreCompared) {
  const SpecialTokenFinder finder({{"<\xE2\x96\x81>", 1}, {"<a>", 2}});
  EXPECT_EQ(find(finder, "\xE2<\xE2\x96\x81><a>"), (Found{{1, 1}, {6, 2}}));
}

TEST(SpecialTokensTest, LowerIdWinsForTheSameText) {
  const SpecialTokenFinder finder({{"<a>", 7}, {"<a>", 4}});
  EXPECT_EQ(find(finder, "<a>"), (Found{{0, 4}}));
}

TEST(SpecialTokensTest, StableEndLeavesOutWhatMoreTextCouldJoin) {
  const SpecialTokenFinder finder({{"<call>", 1}, {"l>x", 2}});
  EXPECT_EQ(finder.stable_end(""), 0u);
  EXPECT_EQ(finder.stable_end("ab"), 2u);
  EXPECT_EQ(finder.stable_end("ab<ca"), 2u);
  EXPECT_EQ(finder.stable_end("ab<cax"), 6u);
  // "l>x" could begin inside the token that stands there.
  EXPECT_EQ(finder.stable_end("ab<call>"), 2u);
  EXPECT_EQ(finder.stable_end("ab<call> "), 9u);
}

TEST(SpecialTokensTest, StableEndOfARunIsItsStart) {
  const SpecialTokenFinder finder({{"\n\n", 2}, {"\n\n\n", 3}});
  EXPECT_EQ(finder.stable_end("a" + std::string(1 << 16, '\n')), 1u);
  EXPECT_EQ(finder.stable_end("a\n\n\n\n\nb"), 7u);
}

}  // namespace
}  // namespace suture
