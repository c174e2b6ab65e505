#include "actors/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace suture {
namespace {

const std::atomic<bool> kNotCancelled = false;
constexpr Deadline kNoDeadline = Deadline::max();

class AdmissionTest : public testing::Test {
 protected:
  using Entered = Result<Admission::Ticket>;

  void limit(int64_t running, int64_t waiting) {
    admission_.emplace(AdmissionLimits{running, waiting}, [this] { return now_ns_.load(); });
  }

  Entered enter(uint64_t client, Deadline deadline = kNoDeadline,
                const std::atomic<bool>& cancelled = kNotCancelled) {
    return admission_->enter({.client = client}, deadline, cancelled);
  }

  // A request of another thread that waits when this returns; once it may run it notes its client,
  // and ends.
  void wait_as(uint64_t client) {
    const int64_t before = admission_->counts().waiting;
    threads_.emplace_back([this, client] {
      const Entered ticket = enter(client);
      ASSERT_TRUE(ticket.has_value()) << ticket.error().message();
      order_.push_back(client);  // one runs at a time
    });
    wait_until_waiting(before + 1);
  }

  // A request of another thread that is expected to be turned away while it waits.
  void wait_in_vain(ErrorCode code, const std::atomic<bool>& cancelled = kNotCancelled) {
    const int64_t before = admission_->counts().waiting;
    threads_.emplace_back([this, code, &cancelled] {
      const Entered ticket = enter(99, kNoDeadline, cancelled);
      ASSERT_FALSE(ticket.has_value());
      EXPECT_EQ(ticket.error().code, code) << ticket.error().message();
    });
    wait_until_waiting(before + 1);
  }

  void wait_until_waiting(int64_t count) const {
    while (admission_->counts().waiting != count) std::this_thread::yield();
  }

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void run_for(std::chrono::nanoseconds duration) {
    const Entered ticket = enter(1);
    now_ns_ += duration.count();
  }

  std::atomic<int64_t> now_ns_ = 1;
  std::optional<Admission> admission_;
  std::vector<std::thread> threads_;
  std::vector<uint64_t> order_;
};

TEST_F(AdmissionTest, ClientsTakeTurnsAndEachOnesRequestsKeepTheirOrder) {
  limit(1, 16);
  {
    const Entered running = enter(7);
    for (const uint64_t client : {1, 1, 1, 2, 2, 3}) wait_as(client);
    EXPECT_EQ(admission_->counts().running, 1);
  }
  join();
  EXPECT_EQ(order_, (std::vector<uint64_t>{1, 2, 3, 1, 2, 1}));
  EXPECT_EQ(admission_->counts().running, 0);
}

TEST_F(AdmissionTest, AsManyRunAsMay) {
  limit(2, 16);
  std::optional<Entered> first(enter(1));
  const Entered second = enter(1);
  ASSERT_TRUE(second.has_value());
  wait_as(2);
  EXPECT_EQ(admission_->counts().running, 2);
  first.reset();
  join();
  EXPECT_EQ(order_, std::vector<uint64_t>{2});
}

// Whatever its clients are; and somebody else's request takes the place that is free meanwhile.
TEST_F(AdmissionTest, RequestsOfOneConversationRunOneAfterAnother) {
  limit(3, 16);
  const auto enter_as = [this](Asker asker) {
    return admission_->enter(asker, kNoDeadline, kNotCancelled);
  };
  std::optional<Entered> first(enter_as({.client = 1, .conversation = 9}));
  threads_.emplace_back([&] {
    const Entered next = enter_as({.client = 2, .conversation = 9});
    EXPECT_TRUE(next.has_value());
    order_.push_back(2);
  });
  wait_until_waiting(1);
  const Entered other = enter_as({.client = 3, .conversation = 8});
  const Entered single = enter_as({.client = 1});
  EXPECT_TRUE(other.has_value() && single.has_value());
  EXPECT_EQ(admission_->counts().waiting, 1);
  first.reset();
  join();
  EXPECT_EQ(order_, std::vector<uint64_t>{2});
}

TEST_F(AdmissionTest, AFullQueueRefusesAtOnceAndSaysWhenToRetry) {
  limit(1, 1);
  run_for(std::chrono::seconds(2));
  run_for(std::chrono::seconds(2));
  {
    const Entered running = enter(1);
    wait_as(2);
    const Entered refused = enter(3);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kBusy);
    EXPECT_DOUBLE_EQ(refused.error().retry_after_seconds, 2);  // one ends before there is a place
    EXPECT_NE(refused.error().remedy.find("2 s"), std::string::npos) << refused.error().remedy;
    EXPECT_NE(refused.error().remedy.find("max_queue"), std::string::npos);
  }
  join();
  EXPECT_TRUE(enter(3).has_value());
}

// Two seconds a request; one runs, one waits, and there was no place for client 4, until another
// one that waited went away.
class RefusedTest : public AdmissionTest {
 protected:
  void SetUp() override {
    limit(1, 2);
    run_for(std::chrono::seconds(2));
    running_.emplace(enter(1));
    wait_as(2);
    std::atomic<bool> cancelled = false;
    wait_in_vain(ErrorCode::kCancelled, cancelled);
    EXPECT_DOUBLE_EQ(hint_for(4), 2);
    EXPECT_DOUBLE_EQ(hint_for(5), 4);
    cancelled.store(true);
    wait_until_waiting(1);
    threads_.back().join();
    threads_.pop_back();
  }

  double hint_for(uint64_t client) {
    const Entered refused = enter(client);
    EXPECT_FALSE(refused.has_value());
    return refused ? 0 : refused.error().retry_after_seconds;
  }

  void finish() {
    running_.reset();
    join();
  }

  std::optional<Entered> running_;
};

TEST_F(RefusedTest, PlacesAreKeptInTheOrderOfTheRefusals) {
  EXPECT_DOUBLE_EQ(hint_for(6), 4);  // 4 and 5 come first, and one place is free
  EXPECT_DOUBLE_EQ(hint_for(5), 2);
  wait_as(4);
  finish();
  EXPECT_EQ(order_, (std::vector<uint64_t>{2, 4}));
}

TEST_F(RefusedTest, APlaceIsNotKeptForEver) {
  EXPECT_GT(hint_for(6), 0);
  now_ns_ += std::chrono::nanoseconds(std::chrono::minutes(1)).count();
  wait_as(7);
  finish();
  EXPECT_EQ(order_, (std::vector<uint64_t>{2, 7}));
}

TEST_F(RefusedTest, NothingStandsIdleForThem) {
  finish();
  EXPECT_TRUE(enter(6).has_value());
}

TEST_F(AdmissionTest, WithoutAQueueTheHintIsThereBeforeAnyRequestHasEnded) {
  limit(1, 0);
  const Entered running = enter(1);
  const Entered refused = enter(2);
  ASSERT_FALSE(refused.has_value());
  EXPECT_GT(refused.error().retry_after_seconds, 0);
}

// A request that must wait for one of its conversation takes no place of others.
TEST_F(AdmissionTest, WithoutAQueueNoFreePlaceIsRefused) {
  limit(2, 0);
  const auto enter_as = [this](Asker asker) {
    return admission_->enter(asker, kNoDeadline, kNotCancelled);
  };
  const Entered first = enter_as({.client = 1, .conversation = 9});
  const Entered next = enter_as({.client = 2, .conversation = 9});
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().code, ErrorCode::kBusy);
  EXPECT_TRUE(enter_as({.client = 3, .conversation = 8}).has_value());
  EXPECT_EQ(admission_->counts().waiting, 0);
}

TEST_F(AdmissionTest, WithoutAQueueAFreedPlaceIsThereForWhoComesNext) {
  limit(2, 0);
  std::optional<Entered> first(enter(1));
  const Entered second = enter(2);
  EXPECT_FALSE(enter(3).has_value());
  first.reset();
  EXPECT_TRUE(enter(4).has_value());  // nothing stands idle for client 3
}

// Two seconds a request, and client 1 asks again as soon as it is answered: client 2 would find a
// request on its way whenever it comes back.
TEST_F(AdmissionTest, WithoutAQueueWhoComesBackWhenItWasToldToHasTheNextTurn) {
  limit(1, 0);
  run_for(std::chrono::seconds(2));
  std::optional<Entered> running(enter(1));
  const Entered refused = enter(2);
  ASSERT_FALSE(refused.has_value());
  EXPECT_DOUBLE_EQ(refused.error().retry_after_seconds, 2);
  EXPECT_FALSE(enter(2).has_value());  // too early
  EXPECT_FALSE(enter(3).has_value());
  now_ns_ += std::chrono::nanoseconds(std::chrono::seconds(2)).count();
  EXPECT_FALSE(enter(3).has_value());  // client 2 comes first
  wait_as(2);
  EXPECT_FALSE(enter(1).has_value());
  running.reset();
  join();
  EXPECT_EQ(order_, std::vector<uint64_t>{2});
}

// Whose first request may not run yet; the next one of that client may.
TEST_F(AdmissionTest, WhoLeavesTheQueueMakesWayForItsNextRequest) {
  limit(2, 4);
  const Entered first =
      admission_->enter({.client = 7, .conversation = 9}, kNoDeadline, kNotCancelled);
  std::atomic<bool> cancelled = false;
  threads_.emplace_back([&] {
    EXPECT_FALSE(admission_->enter({.client = 1, .conversation = 9}, kNoDeadline, cancelled));
  });
  wait_until_waiting(1);
  threads_.emplace_back([&] {
    EXPECT_TRUE(enter(1, deadline_in(std::chrono::minutes(1))));
    order_.push_back(1);
  });
  wait_until_waiting(2);
  cancelled.store(true);
  threads_.front().join();
  threads_.erase(threads_.begin());
  wait_until_waiting(0);
  join();
  EXPECT_EQ(order_, std::vector<uint64_t>{1});
}

TEST_F(AdmissionTest, WhoIsCancelledLeavesTheQueue) {
  limit(1, 1);
  std::atomic<bool> cancelled = false;
  std::optional<Entered> running(enter(1));
  wait_in_vain(ErrorCode::kCancelled, cancelled);
  cancelled.store(true);
  join();
  EXPECT_EQ(admission_->counts().waiting, 0);
  wait_as(2);  // there is a place again
  running.reset();
  join();
  EXPECT_EQ(order_, std::vector<uint64_t>{2});
}

TEST_F(AdmissionTest, TheDeadlineEndsTheWait) {
  limit(1, 4);
  const Entered running = enter(1);
  const Entered late = enter(2, deadline_in(std::chrono::milliseconds(1)));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  EXPECT_FALSE(late.error().remedy.empty());
  EXPECT_EQ(admission_->counts().waiting, 0);
}

TEST_F(AdmissionTest, AfterCloseNobodyEntersAndWhoWaitsGoesOn) {
  limit(1, 4);
  {
    const Entered running = enter(1);
    wait_as(2);
    admission_->close();
    const Entered refused = enter(3);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kClosed);
  }
  join();
  EXPECT_EQ(order_, std::vector<uint64_t>{2});
}

TEST_F(AdmissionTest, StopEndsTheWaitOfAll) {
  limit(1, 4);
  const Entered running = enter(1);
  for (int i = 0; i < 3; ++i) wait_in_vain(ErrorCode::kClosed);
  admission_->stop();
  join();
  EXPECT_EQ(admission_->counts().waiting, 0);
  EXPECT_EQ(admission_->counts().running, 1);
}

TEST_F(AdmissionTest, ManyThreadsNeverRunMoreThanMay) {
  limit(2, 3);
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::atomic<int> entered = 0;
  for (uint32_t thread = 0; thread < 8; ++thread)
    threads_.emplace_back([&, thread] {
      std::mt19937 random(thread);
      for (int i = 0; i < 300; ++i) {
        const std::atomic<bool> cancelled = random() % 4 == 0;
        const Entered ticket = enter(random() % 4, kNoDeadline, cancelled);
        if (!ticket) continue;
        const int now = inside.fetch_add(1) + 1;
        for (int seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        entered.fetch_add(1);
        inside.fetch_sub(1);
      }
    });
  join();
  EXPECT_GT(entered.load(), 0);
  EXPECT_LE(most.load(), 2);
  EXPECT_EQ(admission_->counts().running, 0);
  EXPECT_EQ(admission_->counts().waiting, 0);
}

}  // namespace
}  // namespace suture
