// Workers of one CPU stream. Work is split statically, so who computes what never depends on load.
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

  // Calls f(begin, end, worker) once for each worker that has items, over contiguous ranges that
  // cover [0, n_items), and returns when all are done. One caller at a time; f must not throw and
  // must not call parallel_for() on the same pool. The caller is worker 0.
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

  void run(const Job& job);
  void run_share(int worker) const;
  void work(int worker);

  int size_;
  bool spins_;  // spinning only pays when every worker can have a core of its own
  Job job_;     // written before generation_ grows, read after it was seen to grow
  alignas(64) std::atomic<uint32_t> generation_ = 0;
  alignas(64) std::atomic<uint32_t> running_ = 0;  // workers still busy with the current job
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace suture
