// Ctrl-C, SIGTERM and a closed terminal (SIGHUP, unless it is ignored, as with nohup) as a flag
// that long work looks at.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace suture {

enum class SecondInterrupt : uint8_t {
  kExit,    // ends the process at once
  kIgnore,  // while the flag is set, SIGINT does nothing more; the others end the process
  kNotice,  // wait_again() tells of it; a third one ends the process at once
};

// While it lives, the first of these signals sets `flag`, a second one does as `second` says.
// One at a time in a process.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::atomic<bool>& flag, SecondInterrupt second = SecondInterrupt::kExit);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Blocks until the flag is set.
  void wait() const;
  // With kNotice, after wait(): whether a second signal has come, at the latest after `slice`.
  bool wait_again(std::chrono::milliseconds slice) const;
  // Can be read from once the flag is set.
  int wake_fd() const;
  // Takes the interrupt back: the next one is a first one again.
  void reset();
  // It was not Ctrl-C: somebody wants the process to end.
  bool terminated() const;
};

}  // namespace suture
