#include "launcher/interrupt.h"

#include <gtest/gtest.h>

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
