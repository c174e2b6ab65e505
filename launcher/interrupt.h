// Ctrl-C and SIGTERM as a flag that long work looks at.
#pragma once

#include <atomic>

namespace suture {

// While it lives, the first SIGINT or SIGTERM sets `flag`; a second one ends the process at once.
// One at a time in a process.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::atomic<bool>& flag);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Blocks until the flag is set.
  void wait() const;
};

}  // namespace suture
