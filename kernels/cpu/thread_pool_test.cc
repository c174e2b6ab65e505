#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace suture {
namespace {

TEST(ThreadPoolTest, CoversEveryItemOnceForAnyNumberOfWorkers) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int64_t n : {0, 1, 2, 7, 64, 1000}) {
      for (int64_t grain : {1, 4, 32}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        pool.parallel_for(n, grain, [&](int64_t begin, int64_t end, int worker) {
          EXPECT_TRUE(begin % grain == 0 && worker >= 0 && worker < threads);
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto& s) { return s == 1; }));
      }
    }
  }
}

TEST(ThreadPoolTest, ResultsOfAllWorkersAreVisibleAfterEachOfManyCalls) {
  ThreadPool pool(3);
  std::vector<int64_t> values(300, 0);  // plain memory: the pool alone orders the accesses
  for (int64_t round = 1; round <= 2000; ++round) {
    pool.parallel_for(300, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] += i;
    });
    ASSERT_EQ(values[299], 299 * round);
    ASSERT_EQ(values[150], 150 * round);
  }
}

// Waits until `done` holds; false after a time that only a fault can take.
template <typename Condition>
bool wait_until(const Condition& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Who holds the first item of the last share keeps it until all items outside its range are done.
TEST(ThreadPoolTest, OthersDoWhatASlowWorkerHasNotBegun) {
  for (int threads : {2, 4}) {
    ThreadPool pool(threads);
    constexpr int64_t kItems = 256;
    const int64_t slow_item = kItems - kItems / threads;
    std::atomic<int64_t> done = 0;
    std::atomic<int64_t> held = 0;  // items of the slow worker's range
    pool.parallel_for(kItems, [&](int64_t begin, int64_t end, int) {
      if (begin <= slow_item && slow_item < end) {
        held = end - begin;
        EXPECT_TRUE(wait_until([&] { return done == kItems - (end - begin); }));
      }
      done += end - begin;
    });
    EXPECT_EQ(done, kItems);
    EXPECT_LT(held, kItems / threads);
  }
}

// A worker that does not come in time is not waited for: here all but the caller are kept from the
// cores by being more than those.
TEST(ThreadPoolTest, ManyMoreWorkersThanCoresFinishManyRegions) {
  ThreadPool pool(64);
  std::atomic<int64_t> sum = 0;
  for (int round = 0; round < 500; ++round) {
    pool.parallel_for(64, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  }
  EXPECT_EQ(sum, 500 * 64);
}

TEST(ThreadPoolTest, TwoPoolsRunAtOnce) {
  const auto run = [](int64_t& total) {
    ThreadPool pool(2);
    for (int round = 0; round < 1000; ++round) {
      std::atomic<int64_t> sum = 0;
      pool.parallel_for(100, 7, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
      total += sum;
    }
  };
  int64_t first = 0, second = 0;
  std::thread other([&] { run(second); });
  run(first);
  other.join();
  EXPECT_EQ(first, 100'000);
  EXPECT_EQ(second, 100'000);
}

TEST(ThreadPoolTest, ItemsMayBeMoreThanFourBillion) {
  ThreadPool pool(2);
  constexpr int64_t kItems = (int64_t{1} << 36) + 5;
  std::atomic<int64_t> sum = 0;
  pool.parallel_for(kItems, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  EXPECT_EQ(sum, kItems);
}

}  // namespace
}  // namespace suture
