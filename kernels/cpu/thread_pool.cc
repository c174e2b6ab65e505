#include "kernels/cpu/thread_pool.h"

#include <chrono>

namespace suture {
namespace {

// About what the operating system needs to put a thread to sleep and wake it again.
constexpr std::chrono::microseconds kSpinTime(20);
constexpr int kSpinsPerClockRead = 64;

// Waits until `value` differs from `old`: a short spin, then asleep. Acquires what was released.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old, bool spin) {
  if (spin) {
    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < kSpinsPerClockRead; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        __builtin_ia32_pause();
      }
    } while (std::chrono::steady_clock::now() < deadline);
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : size_(std::max(threads, 1)),
      spins_(static_cast<unsigned>(size_) <= std::max(std::thread::hardware_concurrency(), 1u)) {
  workers_.reserve(static_cast<size_t>(size_ - 1));
  for (int worker = 1; worker < size_; ++worker) {
    workers_.emplace_back([this, worker] { work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);  // published by the release of generation_
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Job& job) {
  job_ = job;
  running_.store(static_cast<uint32_t>(size_ - 1), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  run_share(0);
  for (uint32_t left; (left = running_.load(std::memory_order_acquire)) != 0;) {
    wait_for_change(running_, left, spins_);
  }
}

void ThreadPool::run_share(int worker) const {
  const int64_t n_grains = (job_.n_items + job_.grain - 1) / job_.grain;
  const int64_t begin = n_grains * worker / size_ * job_.grain;
  const int64_t end = std::min(n_grains * (worker + 1) / size_ * job_.grain, job_.n_items);
  if (begin < end) job_.call(job_.context, begin, end, worker);
}

void ThreadPool::work(int worker) {
  for (uint32_t seen = 0;; ++seen) {
    wait_for_change(generation_, seen, spins_);
    if (stopping_.load(std::memory_order_relaxed)) return;
    run_share(worker);
    // Release: what this worker wrote is visible to the caller once it has seen 0.
    if (running_.fetch_sub(1, std::memory_order_release) == 1) running_.notify_one();
  }
}

}  // namespace suture
