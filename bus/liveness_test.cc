#include "bus/liveness.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace suture {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LivenessTest : public ::testing::Test {
 protected:
  LivenessVerdict look(milliseconds at, bool stopped, std::optional<uint64_t> progress) {
    return liveness_.observe({start_ + at, stopped, progress});
  }

  std::chrono::steady_clock::time_point start_{};
  Liveness liveness_{seconds(1), seconds(30)};
};

TEST_F(LivenessTest, StoppedNeedsTwoLooksInARow) {
  EXPECT_EQ(look(seconds(0), true, 1), LivenessVerdict::kAlive);
  EXPECT_EQ(look(seconds(1), false, 2), LivenessVerdict::kAlive);
  EXPECT_EQ(look(seconds(2), true, 3), LivenessVerdict::kAlive);
  EXPECT_EQ(look(seconds(3), true, 3), LivenessVerdict::kStopped);
}

TEST_F(LivenessTest, StoppedIsFoundBeforeAnythingWasPublished) {
  EXPECT_EQ(look(seconds(0), true, std::nullopt), LivenessVerdict::kAlive);
  EXPECT_EQ(look(seconds(1), true, std::nullopt), LivenessVerdict::kStopped);
}

TEST_F(LivenessTest, HungAfterTheBoundWithoutProgress) {
  for (int second = 0; second < 30; ++second) {
    ASSERT_EQ(look(seconds(second), false, 5), LivenessVerdict::kAlive) << second;
  }
  EXPECT_EQ(look(seconds(30), false, 5), LivenessVerdict::kHung);
}

TEST_F(LivenessTest, AnyMovementStartsTheBoundAnew) {
  for (int second = 0; second < 29; ++second) look(seconds(second), false, 5);
  EXPECT_EQ(look(seconds(29), false, 6), LivenessVerdict::kAlive);
  for (int second = 30; second < 59; ++second) {
    ASSERT_EQ(look(seconds(second), false, 6), LivenessVerdict::kAlive) << second;
  }
  EXPECT_EQ(look(seconds(59), false, 6), LivenessVerdict::kHung);
}

TEST_F(LivenessTest, SlowIsNeverDead) {
  uint64_t progress = 0;
  for (int second = 0; second < 3600; ++second) {
    if (second % 29 == 0) ++progress;
    ASSERT_EQ(look(seconds(second), false, progress), LivenessVerdict::kAlive) << second;
  }
}

TEST_F(LivenessTest, UnknownIsNotHung) {
  for (int second = 0; second < 100; ++second) {
    ASSERT_EQ(look(seconds(second), false, std::nullopt), LivenessVerdict::kAlive) << second;
  }
}

TEST_F(LivenessTest, TimeInWhichTheWatcherDidNotRunDoesNotCount) {
  look(seconds(0), true, 5);
  EXPECT_EQ(look(seconds(3600), true, 5), LivenessVerdict::kAlive);
  EXPECT_EQ(look(seconds(3601), false, 5), LivenessVerdict::kAlive);
  EXPECT_EQ(look(seconds(3602), false, 5), LivenessVerdict::kAlive);
}

TEST_F(LivenessTest, LateLooksStillFindAHungPeer) {
  LivenessVerdict verdict = LivenessVerdict::kAlive;
  for (int second = 0; second <= 32; second += 4) verdict = look(seconds(second), false, 5);
  EXPECT_EQ(verdict, LivenessVerdict::kHung);
}

TEST(ProcessStateTest, NameMayHoldAnything) {
  EXPECT_EQ(parse_process_state("12 (suture) S 1 12").value(), 'S');
  EXPECT_EQ(parse_process_state("12 (a) R (b)) T 1 12").value(), 'T');
  EXPECT_EQ(parse_process_state("12 () Z").value(), 'Z');
}

TEST(ProcessStateTest, OtherTextIsRefused) {
  for (const char* text : {"", "12", "12 (suture", "12 (suture)", "12 (suture) ", "12 (a)S 1"}) {
    EXPECT_EQ(parse_process_state(text).error().code, ErrorCode::kCorrupt) << text;
  }
}

TEST(ProcessStateTest, OwnProcessIsReadAndAMissingOneIsNot) {
  EXPECT_NE(read_process_state(::getpid()).value(), 'T');
  EXPECT_EQ(read_process_state(-1).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace suture
