#include "bus/doorbell_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

namespace suture {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class DoorbellSetTest : public testing::Test {
 protected:
  explicit DoorbellSetTest(size_t count = 3) : memory_(count) {
    for (DoorbellData& doorbell : memory_) doorbells_.push_back(&doorbell);
  }

  bool all_have_waiters(uint32_t waiters) const {
    return std::ranges::all_of(
        memory_, [&](const DoorbellData& doorbell) { return doorbell.waiters.load() == waiters; });
  }

  // Rings `ringing` once somebody waits for all of them; true if that ends the wait.
  bool wakes_by(size_t ringing) {
    bool woken = false;
    std::atomic<bool> changed = false;
    std::thread sleeper([&] {
      woken = wait_for_doorbells(doorbells_, deadline_in(seconds(30)),
                                 [&] { return changed.load(std::memory_order_acquire); });
    });
    while (!all_have_waiters(1)) std::this_thread::yield();
    changed.store(true, std::memory_order_release);
    ring_doorbell(memory_[ringing]);
    sleeper.join();
    return woken;
  }

  std::vector<DoorbellData> memory_;
  std::vector<DoorbellData*> doorbells_;
};

class ManyDoorbellsTest : public DoorbellSetTest {
 protected:
  ManyDoorbellsTest() : DoorbellSetTest(300) {}
};

TEST_F(DoorbellSetTest, ReadyNeedsNoWait) {
  EXPECT_TRUE(wait_for_doorbells(doorbells_, Deadline::min(), [] { return true; }));
  EXPECT_TRUE(all_have_waiters(0));
}

TEST_F(DoorbellSetTest, DeadlineEndsTheWait) {
  for (const Deadline deadline : {Deadline::min(), deadline_in(milliseconds(20))})
    EXPECT_FALSE(wait_for_doorbells(doorbells_, deadline, [] { return false; }));
  EXPECT_TRUE(all_have_waiters(0));
}

TEST_F(DoorbellSetTest, AnyOfThemEndsTheWait) {
  for (size_t ringing = 0; ringing < memory_.size(); ++ringing) EXPECT_TRUE(wakes_by(ringing));
  EXPECT_TRUE(all_have_waiters(0));
}

TEST_F(DoorbellSetTest, SleepReturnsAtOnceWhenABellMovedAfterTheLook) {
  DoorbellWaiters waiters(doorbells_);
  waiters.look();
  ring_doorbell(memory_[2]);
  EXPECT_TRUE(waiters.sleep(Deadline::max()));
}

// More than the kernel waits for at once.
TEST_F(ManyDoorbellsTest, AnyOfThemEndsTheWait) {
  for (const size_t ringing : {size_t{0}, size_t{200}, size_t{299}}) EXPECT_TRUE(wakes_by(ringing));
  EXPECT_FALSE(wait_for_doorbells(doorbells_, deadline_in(milliseconds(20)), [] { return false; }));
  EXPECT_TRUE(all_have_waiters(0));
}

}  // namespace
}  // namespace suture
