#include "actors/engine_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "bus/doorbell.h"

namespace suture {
namespace {

class NoWork final : public EngineWork {
 public:
  bool work() override { return false; }
  bool ready() override { return false; }
  void add_doorbells(std::vector<DoorbellData*>& /*doorbells*/) override {}
};

// Pieces that somebody else makes ready.
class Pieces final : public EngineWork {
 public:
  bool work() override {
    if (!ready()) return false;
    ready_.fetch_sub(1);
    done_.fetch_add(1);
    return true;
  }
  bool ready() override { return ready_.load() > 0; }
  void add_doorbells(std::vector<DoorbellData*>& doorbells) override {
    doorbells.push_back(&doorbell_);
  }

  void add(int pieces) {
    ready_.fetch_add(pieces);
    ring_doorbell(doorbell_);
  }
  int done() const { return done_.load(); }
  bool somebody_waits() const { return doorbell_.waiters.load() == 1; }

 private:
  DoorbellData doorbell_{};
  std::atomic<int> ready_ = 0;
  std::atomic<int> done_ = 0;
};

TEST(EngineThreadTest, RunsJobsInOrderAndFinishesThemBeforeItEnds) {
  std::vector<int> order;
  NoWork nothing;
  {
    EngineThread engine(nothing);
    for (int i = 0; i < 100; ++i) engine.post([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(EngineThreadTest, AJobMayPostAnother) {
  bool second = false;
  NoWork nothing;
  {
    EngineThread engine(nothing);
    engine.post([&] { engine.post([&] { second = true; }); });
  }
  EXPECT_TRUE(second);
}

TEST(EngineThreadTest, SleepsUntilWorkRingsAndDoesAllThatIsReadyBeforeItEnds) {
  Pieces pieces;
  {
    EngineThread engine(pieces);
    while (!pieces.somebody_waits()) std::this_thread::yield();
    pieces.add(2);
    while (pieces.done() != 2) std::this_thread::yield();
    while (!pieces.somebody_waits()) std::this_thread::yield();
    pieces.add(3);
  }
  EXPECT_EQ(pieces.done(), 5);
}

TEST(EngineThreadTest, AJobRunsBeforeTheNextPiece) {
  Pieces pieces;
  EngineThread engine(pieces);
  std::promise<void> begun, go_on;
  engine.post([&] {
    begun.set_value();
    go_on.get_future().wait();
  });
  begun.get_future().wait();
  int done_before = -1;
  std::promise<void> ran;
  engine.post([&] {
    done_before = pieces.done();
    ran.set_value();
  });
  pieces.add(3);
  go_on.set_value();
  ran.get_future().wait();
  EXPECT_EQ(done_before, 0);
}

}  // namespace
}  // namespace suture
