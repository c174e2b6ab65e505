#include "bus/doorbell.h"

#include <gtest/gtest.h>

#include <thread>

namespace suture {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Shared {
  DoorbellData doorbell{};
  std::atomic<int> value{0};
};

TEST(DoorbellTest, ReadyNeedsNoWait) {
  Shared shared;
  EXPECT_TRUE(wait_for_doorbell(shared.doorbell, Deadline::min(), [] { return true; }));
  EXPECT_EQ(shared.doorbell.waiters, 0u);
}

TEST(DoorbellTest, DeadlineEndsTheWait) {
  Shared shared;
  EXPECT_FALSE(
      wait_for_doorbell(shared.doorbell, deadline_in(milliseconds(20)), [] { return false; }));
  EXPECT_FALSE(wait_for_doorbell(shared.doorbell, Deadline::clock::now() - seconds(1),
                                 [] { return false; }));
  EXPECT_EQ(shared.doorbell.waiters, 0u);
}

TEST(DoorbellTest, TheEarliestAndLatestDeadlinesAreValid) {
  Shared shared;
  EXPECT_FALSE(wait_for_doorbell(shared.doorbell, Deadline::min(), [] { return false; }));
  int tests = 0;
  EXPECT_TRUE(doorbell_sleep(shared.doorbell, shared.doorbell.bell + 1, Deadline::max()));
  EXPECT_TRUE(wait_for_doorbell(shared.doorbell, Deadline::max(), [&] { return ++tests > 1; }));
}

TEST(DoorbellTest, SleepReturnsAtOnceWhenTheBellMoved) {
  Shared shared;
  const uint32_t seen = shared.doorbell.bell;
  ring_doorbell(shared.doorbell);
  EXPECT_TRUE(doorbell_sleep(shared.doorbell, seen, deadline_in(seconds(30))));
}

TEST(DoorbellTest, WakesASleeper) {
  Shared shared;
  std::thread sleeper([&] {
    EXPECT_TRUE(wait_for_doorbell(shared.doorbell, deadline_in(seconds(30)), [&] {
      return shared.value.load(std::memory_order_acquire) == 1;
    }));
  });
  // Once registered it sleeps, or is about to, and only the ring can end its wait.
  while (shared.doorbell.waiters.load() == 0) std::this_thread::yield();
  shared.value.store(1, std::memory_order_release);
  ring_doorbell(shared.doorbell);
  sleeper.join();
  EXPECT_EQ(shared.doorbell.waiters, 0u);
}

// Two sides answer each other through two doorbells: one lost wake-up and both wait for ever.
TEST(DoorbellTest, NoWakeUpIsLostInPingPong) {
  constexpr int kRounds = 5000;
  Shared ping;
  Shared pong;
  const auto wait_for = [](Shared& side, int round) {
    return wait_for_doorbell(side.doorbell, deadline_in(seconds(60)),
                             [&] { return side.value.load(std::memory_order_acquire) >= round; });
  };
  const auto tell = [](Shared& side, int round) {
    side.value.store(round, std::memory_order_release);
    ring_doorbell(side.doorbell);
  };
  std::thread other([&] {
    for (int round = 1; round <= kRounds; ++round) {
      ASSERT_TRUE(wait_for(ping, round));
      tell(pong, round);
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    tell(ping, round);
    ASSERT_TRUE(wait_for(pong, round)) << "round " << round;
  }
  other.join();
}

}  // namespace
}  // namespace suture
