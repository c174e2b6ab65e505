// What becomes of real processes that are slow, starved, stopped or hung. Times are either invented
// (the looks of a watcher, one a second) or not there at all: a slow machine changes nothing.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "bus/broker_client.h"
#include "bus/control.h"
#include "bus/liveness.h"
#include "bus/slab.h"
#include "bus/test_child.h"
#include "bus/test_freeze.h"
#include "bus/test_streams.h"

namespace suture {
namespace {

using std::chrono::seconds;

// Publishes a slab, and shows a heartbeat whenever it is told to.
SUTURE_TEST_CHILD(told_to_beat) {
  const auto slab = Slab::create({small_shape(), 32, 1, PeerId{1}}).value();
  const int control = slab->control_fd();
  parent.say("control", {&control, 1});
  for (std::string order = parent.hear(); order == "beat"; order = parent.hear()) {
    slab->heartbeat();
    parent.say("beaten");
  }
  return 0;
}

// Looks once a second at a process that has published its slab.
class WatchedProcessTest : public ::testing::Test {
 protected:
  LivenessVerdict look(std::optional<uint64_t> activity) {
    now_ += seconds(1);
    return liveness_.observe(look_at_process(child_.pid(), now_, activity).value());
  }
  LivenessVerdict look() { return look(control_.activity()); }

  void beat() const {
    child_.say("beat");
    ASSERT_EQ(child_.hear(), "beaten");
  }

  ChildProcess child_{"told_to_beat"};
  Control control_ = Control::attach(child_.hear_fds().at(0).get()).value();
  Liveness liveness_{seconds(1), seconds(30)};
  std::chrono::steady_clock::time_point now_{};
};

TEST_F(WatchedProcessTest, StarvedForTenSecondsIsWaitedForAgainAndAgain) {
  for (int time = 0; time < 10; ++time) {
    {
      const auto starved = freeze(child_.pid());
      ASSERT_TRUE(starved) << starved.error().message();
      for (int second = 0; second < 10; ++second) ASSERT_EQ(look(), LivenessVerdict::kAlive);
    }
    beat();
    ASSERT_EQ(look(), LivenessVerdict::kAlive);
  }
}

TEST_F(WatchedProcessTest, StoppedIsFoundInTwoLooks) {
  beat();
  ASSERT_EQ(look(), LivenessVerdict::kAlive);
  child_.signal(SIGSTOP);
  while (read_process_state(child_.pid()).value() != 'T') std::this_thread::yield();
  EXPECT_EQ(look(), LivenessVerdict::kAlive);
  EXPECT_EQ(look(), LivenessVerdict::kStopped);
}

TEST_F(WatchedProcessTest, StoppedAndContinuedBetweenTwoLooksIsAlive) {
  child_.signal(SIGSTOP);
  while (read_process_state(child_.pid()).value() != 'T') std::this_thread::yield();
  EXPECT_EQ(look(), LivenessVerdict::kAlive);
  child_.signal(SIGCONT);
  beat();
  EXPECT_EQ(look(), LivenessVerdict::kAlive);
}

TEST_F(WatchedProcessTest, HungIsFoundAtItsBoundAndNotBefore) {
  beat();
  const auto hung = freeze(child_.pid());
  ASSERT_TRUE(hung) << hung.error().message();
  ASSERT_EQ(look(), LivenessVerdict::kAlive);
  for (int second = 1; second < 30; ++second) ASSERT_EQ(look(), LivenessVerdict::kAlive) << second;
  EXPECT_EQ(look(), LivenessVerdict::kHung);
}

// As above, of a process that has not published anything yet: no model is loaded without
// processor time.
TEST_F(WatchedProcessTest, SlowToStartIsNotHung) {
  for (int second = 0; second < 100; ++second) {
    beat();
    ASSERT_EQ(look(std::nullopt), LivenessVerdict::kAlive) << second;
  }
}

TEST_F(WatchedProcessTest, HungBeforeItsFirstHeartbeatIsFoundAtTheSameBound) {
  beat();
  const auto hung = freeze(child_.pid());
  ASSERT_TRUE(hung) << hung.error().message();
  ASSERT_EQ(look(std::nullopt), LivenessVerdict::kAlive);
  for (int second = 1; second < 30; ++second)
    ASSERT_EQ(look(std::nullopt), LivenessVerdict::kAlive) << second;
  EXPECT_EQ(look(std::nullopt), LivenessVerdict::kHung);
}

// The slab comes after 29 seconds without a sign: the bound starts anew.
TEST_F(WatchedProcessTest, PublishingIsASignOfLife) {
  beat();
  const auto starved = freeze(child_.pid());
  ASSERT_TRUE(starved) << starved.error().message();
  for (int second = 0; second < 30; ++second)
    ASSERT_EQ(look(std::nullopt), LivenessVerdict::kAlive) << second;
  for (int second = 0; second < 30; ++second) ASSERT_EQ(look(), LivenessVerdict::kAlive) << second;
  EXPECT_EQ(look(), LivenessVerdict::kHung);
}

}  // namespace
}  // namespace suture
