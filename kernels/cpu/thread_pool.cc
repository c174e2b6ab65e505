#include "kernels/cpu/thread_pool.h"

#include <sched.h>

#include <chrono>
#include <limits>

namespace suture {
namespace {

// ThreadPool::state_: busy workers, closed, number of the region (which may wrap: a worker that
// slept through all numbers joins the region that has its own, or waits for the next).
constexpr uint32_t kBusy = 0x7fff;
constexpr uint32_t kClosed = 0x8000;
constexpr uint32_t kRegion = 0xffff0000;
constexpr uint32_t kNextRegion = 0x10000;

// About what the operating system needs to put a thread to sleep and wake it again.
constexpr std::chrono::microseconds kSpinTime(50);
constexpr int kSpinsPerClockRead = 64;

constexpr uint64_t pack(int64_t begin, int64_t end) {
  return static_cast<uint64_t>(end) << 32 | static_cast<uint64_t>(begin);
}

struct Grains {
  int64_t begin = 0;
  int64_t end = 0;
};

// Half of what is left, but at least an eighth of the share: long runs first, short ones to end
// together.
int64_t piece(int64_t left, int64_t share) {
  return std::min(left, std::max<int64_t>({left / 2, share / 8, 1}));
}

// Takes grains of a share of `share` grains: its owner from the front, others from the back.
// Relaxed: what the grains stand for is ordered by ThreadPool::state_.
Grains take(std::atomic<uint64_t>& left, int64_t share, bool from_front) {
  uint64_t seen = left.load(std::memory_order_relaxed);
  for (;;) {
    const auto begin = static_cast<int64_t>(seen & 0xffffffff);
    const auto end = static_cast<int64_t>(seen >> 32);
    if (begin >= end) return {};
    const int64_t count = piece(end - begin, share);
    const uint64_t rest = from_front ? pack(begin + count, end) : pack(begin, end - count);
    if (left.compare_exchange_weak(seen, rest, std::memory_order_relaxed)) {
      return from_front ? Grains{begin, begin + count} : Grains{end - count, end};
    }
  }
}

int cores_allowed() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : size_(std::clamp(threads, 1, static_cast<int>(kBusy))),
      spins_(size_ <= cores_allowed()),
      shares_(static_cast<size_t>(size_)),
      state_(kClosed) {
  workers_.reserve(static_cast<size_t>(size_ - 1));
  for (int worker = 1; worker < size_; ++worker) {
    workers_.emplace_back([this, worker] { work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);  // published by the release of state_
  state_.fetch_add(kNextRegion, std::memory_order_release);
  state_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Job& job) {
  deal_out(job);
  // Closed and without busy workers, so only this thread writes it: the next region, open. A
  // read-modify-write all the same, which no waiter's look at the value can overtake. Release: who
  // joins sees the job and the shares.
  state_.fetch_add(kNextRegion - kClosed, std::memory_order_acq_rel);
  state_.notify_all();
  take_part(0);
  wait_for_workers();
}

void ThreadPool::deal_out(const Job& job) {
  job_ = job;
  const int64_t most = std::numeric_limits<uint32_t>::max();
  job_.grain = std::max(job.grain, job.n_items / most + 1);
  const int64_t n_grains = (job_.n_items + job_.grain - 1) / job_.grain;
  for (int64_t worker = 0; worker < size_; ++worker) {
    shares_[static_cast<size_t>(worker)].left.store(
        pack(n_grains * worker / size_, n_grains * (worker + 1) / size_),
        std::memory_order_relaxed);
  }
}

void ThreadPool::take_part(int worker) {
  const int64_t share = (job_.n_items / job_.grain) / size_;
  for (int i = 0; i < size_; ++i) {
    Share& from = shares_[static_cast<size_t>((worker + i) % size_)];
    for (;;) {
      const Grains taken = take(from.left, share, i == 0);
      if (taken.begin == taken.end) break;
      job_.call(job_.context, taken.begin * job_.grain,
                std::min(taken.end * job_.grain, job_.n_items), worker);
    }
  }
}

void ThreadPool::work(int worker) {
  uint32_t seen = kClosed;
  for (;;) {
    seen = wait_for_change(seen, kRegion);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!join(seen)) continue;
    take_part(worker);
    leave();
  }
}

// Counts this worker among the busy ones of the region that it saw, unless that is over.
bool ThreadPool::join(uint32_t state) {
  const uint32_t region = state & kRegion;
  while ((state & kRegion) == region && (state & kClosed) == 0) {
    // Acquire: the job and the shares.
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

// Release: what this worker wrote is visible to the caller once it has seen nobody busy.
void ThreadPool::leave() {
  const uint32_t before = state_.fetch_sub(1, std::memory_order_release);
  if ((before & kClosed) != 0 && (before & kBusy) == 1) state_.notify_all();
}

void ThreadPool::wait_for_workers() {
  uint32_t state = state_.fetch_or(kClosed, std::memory_order_acquire) | kClosed;
  while ((state & kBusy) != 0) state = wait_for_change(state, kBusy);
}

// Waits until the state differs from `state` in the bits of `mask`: a spin, then asleep. Returns
// the new state, acquired.
uint32_t ThreadPool::wait_for_change(uint32_t state, uint32_t mask) const {
  const uint32_t old = state & mask;
  if (spins_) {
    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < kSpinsPerClockRead; ++i) {
        state = state_.load(std::memory_order_acquire);
        if ((state & mask) != old) return state;
        __builtin_ia32_pause();
      }
    } while (std::chrono::steady_clock::now() < deadline);
  }
  while (((state = state_.load(std::memory_order_acquire)) & mask) == old) {
    state_.wait(state, std::memory_order_acquire);
  }
  return state;
}

}  // namespace suture
