// Ctrl-C and SIGTERM as a flag that long work looks at.
#pragma once

#include <atomic>
#include <cstdint>

namespace suture {

enum class SecondInterrupt : uint8_t {
  kExit,    // ends the process at once
  kIgnore,  // while the flag is set, SIGINT does nothing more; SIGTERM ends the process
};

// While it lives, the first SIGINT or SIGTERM sets `flag`, a second one does as `second` says.
// One at a time in a process.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::atomic<bool>& flag, SecondInterrupt second = SecondInterrupt::kExit);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Blocks until the flag is set.
  void wait() const;
  // Can be read from once the flag is set.
  int wake_fd() const;
  // Takes the interrupt back: the next one is a first one again.
  void reset();
  // It was SIGTERM.
  bool terminated() const;
};

}  // namespace suture
