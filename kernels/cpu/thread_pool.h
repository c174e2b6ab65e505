// Workers of one CPU stream.
//
// A region's items are dealt out in equal contiguous shares. Each worker takes its own share from
// the front in shrinking pieces; who is done takes from the back of the others'. The caller never
// waits for a worker that has not begun: on a machine with other work it simply does more itself.
// So which worker computes an item depends on the load, and what it computes must not.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace suture {

class ThreadPool {
 public:
  // `threads` workers, the thread that calls parallel_for() included; at least 1.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int size() const { return size_; }

  // Calls f(begin, end, worker) for contiguous ranges that cover [0, n_items), and returns when all
  // are done. A worker gets any number of ranges, one at a time, and none perhaps. One caller at a
  // time; f must not throw and must not call parallel_for() on the same pool. The caller is
  // worker 0.
  template <typename F>
  void parallel_for(int64_t n_items, F&& f) {
    parallel_for(n_items, 1, f);
  }

  // As above, with ranges that begin at multiples of `grain` items.
  template <typename F>
  void parallel_for(int64_t n_items, int64_t grain, F&& f) {
    if (n_items <= 0) return;
    if (size_ == 1 || n_items <= grain) {
      f(int64_t{0}, n_items, 0);
      return;
    }
    using Function = std::remove_reference_t<F>;
    run({[](const void* context, int64_t begin, int64_t end, int worker) {
           (*static_cast<Function*>(const_cast<void*>(context)))(begin, end, worker);
         },
         std::addressof(f), n_items, grain});
  }

 private:
  struct Job {
    void (*call)(const void* context, int64_t begin, int64_t end, int worker) = nullptr;
    const void* context = nullptr;
    int64_t n_items = 0;
    int64_t grain = 1;
  };

  // Grains of one worker's share that nobody has taken: the first in the low half, the end in the
  // high one. A cache line each.
  struct alignas(64) Share {
    std::atomic<uint64_t> left = 0;
  };

  void run(const Job& job);
  void deal_out(const Job& job);
  void take_part(int worker);
  void work(int worker);
  bool join(uint32_t state);
  void leave();
  void wait_for_workers();
  uint32_t wait_for_change(uint32_t state, uint32_t mask) const;

  const int size_;
  const bool spins_;  // spinning only pays when every worker can have a core of its own
  Job job_;           // of the region in progress; read by workers that have joined it
  std::vector<Share> shares_;
  // The region's number, whether it is closed to workers that have not joined yet, and how many of
  // those that have are still busy.
  alignas(64) std::atomic<uint32_t> state_;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace suture
