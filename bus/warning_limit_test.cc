#include "bus/warning_limit.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

using std::chrono::milliseconds;

TEST(WarningLimitTest, OneASecondOfEachKindAndTheOthersAreCounted) {
  WarningLimit limit("broker");
  const WarningLimit::Clock::time_point start{};
  EXPECT_EQ(limit.line("refused", "process 1", start), "broker: refused: process 1");
  EXPECT_EQ(limit.line("refused", "process 2", start), std::nullopt);
  EXPECT_EQ(limit.line("refused", "process 3", start + milliseconds(999)), std::nullopt);
  EXPECT_EQ(limit.line("silent", "process 4", start + milliseconds(999)),
            "broker: silent: process 4");
  EXPECT_EQ(limit.line("refused", "process 5", start + milliseconds(1000)),
            "broker: refused: process 5, and 2 more before");
  EXPECT_EQ(limit.line("refused", "process 6", start + milliseconds(2000)),
            "broker: refused: process 6");
}

TEST(WarningLimitTest, NothingFromTheOtherSideSteersATerminal) {
  WarningLimit limit("broker");
  EXPECT_EQ(limit.line("refused", "'\x1b[2J\n'", {}), "broker: refused: '?[2J?'");
}

}  // namespace
}  // namespace suture
