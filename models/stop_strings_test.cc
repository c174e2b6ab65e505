#include "models/stop_strings.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

// Everything shown when `text` comes in pieces of `size` bytes.
std::string shown(StopMatcher& matcher, std::string_view text, size_t size) {
  std::string all;
  for (size_t at = 0; at < text.size(); at += size) all += matcher.push(text.substr(at, size));
  return all + matcher.finish();
}

TEST(StopStringsTest, TextEndsBeforeTheFirstStopStringHoweverItComes) {
  for (size_t size = 1; size < 20; ++size) {
    StopMatcher matcher({"END", "\nUser:"});
    EXPECT_EQ(shown(matcher, "one\ntwo ENtwo\nUser: x END", size), "one\ntwo ENtwo") << size;
    EXPECT_TRUE(matcher.stopped());
  }
}

TEST(StopStringsTest, OfSeveralTheOneThatBeginsFirstCounts) {
  StopMatcher matcher({"bcd", "abcde"});
  EXPECT_EQ(matcher.push("xxabcd"), "xxa");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopStringsTest, WhatMayBecomeAStopStringIsHeldBackAndNoMore) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.push("xa"), "x");
  EXPECT_EQ(matcher.push("a"), "");
  EXPECT_EQ(matcher.push("a"), "a");  // "aa" may still be one
  EXPECT_EQ(matcher.push("c"), "aac");
  EXPECT_EQ(matcher.push("a"), "");
  EXPECT_EQ(matcher.finish(), "a");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopStringsTest, NothingIsShownAfterAStop) {
  StopMatcher matcher({"."});
  EXPECT_EQ(matcher.push("a.b"), "a");
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopStringsTest, WithoutStopStringsTextPassesAtOnce) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopStringsTest, WhatCannotStopIsRefused) {
  EXPECT_TRUE(validate_stop_strings({"a", "ä", std::string(kMaxStopBytes, 'x')}).has_value());
  for (const std::string& stop : {std::string(), std::string(kMaxStopBytes + 1, 'x'),
                                  std::string("\xff"), std::string("\xc3")}) {
    const Status status = validate_stop_strings({"a", stop});
    ASSERT_FALSE(status.has_value()) << stop;
    EXPECT_EQ(status.error().where, "stop");
  }
  EXPECT_FALSE(validate_stop_strings(std::vector<std::string>(17, "a")).has_value());
}

}  // namespace
}  // namespace suture
