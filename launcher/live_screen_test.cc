#include "launcher/live_screen.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

TEST(LiveScreenTest, WhatDoesNotFitIsCutOff) {
  EXPECT_EQ(fit_to_screen("abcdef\n\nxy\nz\n", 3, 4), "abcd\033[K\r\n\033[K\r\nxy\033[K");
  EXPECT_EQ(fit_to_screen("ab", 5, 80), "ab\033[K");
  EXPECT_EQ(fit_to_screen("", 5, 80), "");
  EXPECT_EQ(fit_to_screen("ab\n", 0, 80), "");
}

}  // namespace
}  // namespace suture
