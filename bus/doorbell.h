// A futex doorbell in shared memory (design §3): one side changes state and rings, the other waits
// until the state is what it needs.
//
//   ringer: change state (release); bell += 1 (seq_cst); if waiters (seq_cst) != 0: FUTEX_WAKE
//   waiter: spin a little; waiters += 1 (seq_cst); read bell (seq_cst); test; FUTEX_WAIT(bell); ...
//
// Why no wake-up is lost: all four accesses are seq_cst, so they have one order. If the ringer read
// waiters == 0, it did so before the waiter's increment, hence its bell increment came before the
// waiter's read of the bell; that read synchronises with it, and the test sees the new state.
// Otherwise the ringer wakes, and FUTEX_WAIT returns at once if the bell moved in between.
//
// Futexes are shared, not private: std::atomic::wait works within one process only. There are no
// stand-alone fences, which the thread sanitizer does not model.
//
// A waiter that dies leaves `waiters` too high: each later ring costs one system call, no more.
#pragma once

#include <time.h>

#include <chrono>
#include <concepts>
#include <cstdint>

#include "bus/layout.h"

namespace suture {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline deadline_in(std::chrono::nanoseconds duration) {
  return std::chrono::steady_clock::now() + duration;
}

// As system calls want it.
timespec to_timespec(Deadline deadline);

// Call after the state change; the change itself must be at least a release store.
void ring_doorbell(DoorbellData& doorbell);

// One pause of the spin phase.
void spin_pause();
inline constexpr int kSpinPauses = 256;  // about 10 us; longer than a commit, shorter than a layer

// FUTEX_WAIT while bell == seen, until the deadline. False if the deadline passed.
bool doorbell_sleep(DoorbellData& doorbell, uint32_t seen, Deadline deadline);

// Registers a waiter for its lifetime.
class DoorbellWaiter {
 public:
  explicit DoorbellWaiter(DoorbellData& doorbell);
  ~DoorbellWaiter();
  DoorbellWaiter(const DoorbellWaiter&) = delete;
  DoorbellWaiter& operator=(const DoorbellWaiter&) = delete;

 private:
  DoorbellData& doorbell_;
};

// Waits until ready() is true. False if the deadline passed first. `ready` loads with acquire.
template <std::predicate Ready>
bool wait_for_doorbell(DoorbellData& doorbell, Deadline deadline, Ready&& ready) {
  for (int i = 0; i < kSpinPauses; ++i) {
    if (ready()) return true;
    spin_pause();
  }
  const DoorbellWaiter registered(doorbell);
  while (true) {
    // seq_cst: ordered after the increment of waiters and before the test (see above).
    const uint32_t seen = doorbell.bell.load(std::memory_order_seq_cst);
    if (ready()) return true;
    if (!doorbell_sleep(doorbell, seen, deadline)) return ready();
  }
}

}  // namespace suture
