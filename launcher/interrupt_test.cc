#include "launcher/interrupt.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>

namespace suture {
namespace {

TEST(InterruptTest, TheFirstSignalSetsTheFlagAndWakesTheWaiter) {
  std::atomic<bool> flag = false;
  const InterruptGuard guard(flag);
  std::raise(SIGTERM);
  EXPECT_TRUE(flag.load());
  guard.wait();  // returns, since the signal has come
}

TEST(InterruptTest, AChatTakesInterruptsBack) {
  std::atomic<bool> flag = false;
  InterruptGuard guard(flag, SecondInterrupt::kIgnore);
  for (int round = 0; round < 2; ++round) {
    std::raise(SIGINT);
    std::raise(SIGINT);
    EXPECT_TRUE(flag.load());
    pollfd poll_fd{guard.wake_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&poll_fd, 1, 0), 1);
    guard.reset();
    guard.reset();
    EXPECT_FALSE(flag.load());
    EXPECT_EQ(::poll(&poll_fd, 1, 0), 0);
    EXPECT_FALSE(guard.terminated());
  }
  std::raise(SIGTERM);
  EXPECT_TRUE(guard.terminated());
}

TEST(InterruptTest, AHangupThatIsIgnoredStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  std::atomic<bool> flag = false;
  {
    const InterruptGuard guard(flag);
    std::raise(SIGHUP);
    EXPECT_FALSE(flag.load());
  }
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

TEST(InterruptTest, ASecondSignalCanBeWaitedForToo) {
  std::signal(SIGHUP, SIG_DFL);
  std::atomic<bool> flag = false;
  const InterruptGuard guard(flag, SecondInterrupt::kNotice);
  std::raise(SIGHUP);
  guard.wait();
  EXPECT_TRUE(guard.terminated());
  EXPECT_FALSE(guard.wait_again(std::chrono::milliseconds(0)));
  std::raise(SIGTERM);
  EXPECT_TRUE(guard.wait_again(std::chrono::minutes(1)));
}

TEST(InterruptDeathTest, TheThirdSignalEndsTheProcessWhereTheSecondIsNoticed) {
  EXPECT_EXIT(
      {
        std::atomic<bool> flag = false;
        const InterruptGuard guard(flag, SecondInterrupt::kNotice);
        for (int signal = 0; signal < 3; ++signal) std::raise(SIGTERM);
      },
      testing::ExitedWithCode(143), "");
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        std::atomic<bool> flag = false;
        const InterruptGuard guard(flag);
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, AfterTheGuardSignalsActAsBefore) {
  EXPECT_EXIT(
      {
        {
          std::atomic<bool> flag = false;
          const InterruptGuard guard(flag);
        }
        std::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace suture
