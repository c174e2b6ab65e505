#include "actors/restart_policy.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

RestartPolicy::Clock::time_point at(milliseconds since) {
  return RestartPolicy::Clock::time_point(since);
}

TEST(RestartPolicyTest, WaitsLongerAfterEachCrashAndThenGivesUp) {
  RestartPolicy policy(
      {.tries = 4, .first_delay = milliseconds(500), .longest_delay = milliseconds(1500)});
  EXPECT_EQ(policy.tries(), 0);
  EXPECT_EQ(policy.ended(at(seconds(1))), milliseconds(500));
  EXPECT_EQ(policy.ended(at(seconds(2))), milliseconds(1000));
  EXPECT_EQ(policy.ended(at(seconds(4))), milliseconds(1500));
  EXPECT_EQ(policy.ended(at(seconds(6))), milliseconds(1500));
  EXPECT_EQ(policy.tries(), 4);
  EXPECT_EQ(policy.ended(at(seconds(8))), std::nullopt);
  EXPECT_EQ(policy.ended(at(seconds(9))), std::nullopt);
}

TEST(RestartPolicyTest, AProcessThatWorkedForLongBeginsAnew) {
  RestartPolicy policy({.tries = 2, .healthy_after = seconds(60)});
  EXPECT_TRUE(policy.ended(at(seconds(1))).has_value());
  policy.joined(at(seconds(2)));
  EXPECT_EQ(policy.ended(at(seconds(61))), milliseconds(1000));  // 59 s are not enough
  policy.joined(at(seconds(62)));
  EXPECT_EQ(policy.ended(at(seconds(122))), milliseconds(500));
  EXPECT_EQ(policy.tries(), 1);
  // A start that never joined says nothing of health, however long it took.
  EXPECT_EQ(policy.ended(at(seconds(900))), milliseconds(1000));
  EXPECT_EQ(policy.ended(at(seconds(901))), std::nullopt);
}

TEST(RestartPolicyTest, NoTriesMeansNever) {
  EXPECT_EQ(RestartPolicy({.tries = 0}).ended(at(seconds(1))), std::nullopt);
}

}  // namespace
}  // namespace suture
