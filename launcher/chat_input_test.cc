#include "launcher/chat_input.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(ChatInputTest, ALineIsAMessage) {
  MessageAssembler assembler;
  EXPECT_EQ(assembler.add("hello"), "hello");
  EXPECT_EQ(assembler.add(""), "");
  EXPECT_FALSE(assembler.unfinished());
  EXPECT_FALSE(assembler.finish().has_value());
}

TEST(ChatInputTest, ABackslashGoesOnWithTheNextLine) {
  MessageAssembler assembler;
  EXPECT_FALSE(assembler.add("one\\").has_value());
  EXPECT_TRUE(assembler.unfinished());
  EXPECT_FALSE(assembler.add("\"\"\"two\\").has_value());
  EXPECT_EQ(assembler.add("three"), "one\n\"\"\"two\nthree");
  EXPECT_EQ(assembler.add("four"), "four");
}

TEST(ChatInputTest, ThreeQuotesHoldLinesAsTheyAre) {
  MessageAssembler assembler;
  EXPECT_FALSE(assembler.add("\"\"\"first").has_value());
  EXPECT_FALSE(assembler.add("/quit\\").has_value());
  EXPECT_FALSE(assembler.add("").has_value());
  EXPECT_EQ(assembler.add("last\"\"\""), "first\n/quit\\\n\nlast");
  EXPECT_EQ(assembler.add("\"\"\"in one line\"\"\""), "in one line");
  EXPECT_FALSE(assembler.add("\"\"\"").has_value());
  EXPECT_FALSE(assembler.add("x").has_value());
  EXPECT_EQ(assembler.add("\"\"\""), "x\n");
}

TEST(ChatInputTest, WhatIsUnfinishedAtTheEndIsAMessageToo) {
  MessageAssembler assembler;
  assembler.add("one\\");
  EXPECT_EQ(assembler.finish(), "one");
  assembler.add("\"\"\"one");
  assembler.add("two");
  EXPECT_EQ(assembler.finish(), "one\ntwo");
  assembler.add("\"\"\"one");
  assembler.clear();
  EXPECT_EQ(assembler.add("two"), "two");
}

}  // namespace
}  // namespace suture
