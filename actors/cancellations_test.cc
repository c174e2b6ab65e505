#include "actors/cancellations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "bus/doorbell.h"

namespace suture {
namespace {

TEST(CancellationsTest, ReachWhatIsExpectedWhetherItHasBegunOrNot) {
  Cancellations cancellations;
  cancellations.expect(1);
  const auto begun = cancellations.flag(2);
  cancellations.cancel(1);
  EXPECT_TRUE(cancellations.flag(1)->load());
  EXPECT_FALSE(begun->load());
  cancellations.cancel(2);
  EXPECT_TRUE(begun->load());
}

TEST(CancellationsTest, OfWhatHasEndedOrNeverComesChangeNothing) {
  Cancellations cancellations;
  const auto ended = cancellations.flag(1);
  cancellations.forget(1);
  cancellations.cancel(1);
  cancellations.cancel(7);
  EXPECT_FALSE(ended->load());
  EXPECT_FALSE(cancellations.flag(7)->load());
}

TEST(CancellationsTest, StopEndsAllThatRunsOrComes) {
  Cancellations cancellations;
  const auto runs = cancellations.flag(1);
  cancellations.stop();
  EXPECT_TRUE(runs->load());
  EXPECT_TRUE(cancellations.flag(2)->load());
}

TEST(CancellationsTest, TheDoorbellRings) {
  Cancellations cancellations;
  const auto flag = cancellations.flag(1);
  std::thread waiter([&] {
    EXPECT_TRUE(wait_for_doorbell(cancellations.doorbell(), deadline_in(std::chrono::seconds(30)),
                                  [&] { return flag->load(std::memory_order_acquire); }));
  });
  while (cancellations.doorbell().waiters.load() == 0) std::this_thread::yield();
  cancellations.cancel(1);
  waiter.join();
}

}  // namespace
}  // namespace suture
