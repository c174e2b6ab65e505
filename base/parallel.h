// A loop whose turns are independent, shared out among threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace suture {

// Calls turn(i) once for each i below n, in no order, on up to `threads` threads; returns when all
// have ended.
template <typename Turn>
void for_each_in_parallel(int64_t n, int threads, const Turn& turn) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    // Relaxed: only the number is shared; ending the threads orders what the turns wrote.
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < n;
         i = next.fetch_add(1, std::memory_order_relaxed))
      turn(i);
  };
  std::vector<std::jthread> others;
  const auto n_others = std::min<int64_t>(threads, n) - 1;
  for (int64_t i = 0; i < n_others; ++i) others.emplace_back(work);
  work();
}

}  // namespace suture
