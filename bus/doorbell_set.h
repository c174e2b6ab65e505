// Waiting for several doorbells at once, each with the protocol of bus/doorbell.h.
#pragma once

#include <linux/futex.h>

#include <array>
#include <concepts>
#include <span>

#include "bus/doorbell.h"

namespace suture {

// Registers a waiter on each doorbell for its lifetime; `doorbells` must outlive it.
class DoorbellWaiters {
 public:
  explicit DoorbellWaiters(std::span<DoorbellData* const> doorbells);
  ~DoorbellWaiters();
  DoorbellWaiters(const DoorbellWaiters&) = delete;
  DoorbellWaiters& operator=(const DoorbellWaiters&) = delete;

  // Reads all bells; the test comes after it, and then sleep().
  void look();
  // Until some bell has moved since look(), or for no reason. False if the deadline passed.
  bool sleep(Deadline deadline);

 private:
  // The kernel takes no more in one call. What is beyond is looked at once in a while.
  static constexpr size_t kMostFutexes = FUTEX_WAITV_MAX;

  std::span<DoorbellData* const> doorbells_;
  std::array<futex_waitv, kMostFutexes> futexes_;  // of the first doorbells
};

// Waits until ready() is true. False if the deadline passed first. `ready` loads with acquire.
template <std::predicate Ready>
bool wait_for_doorbells(std::span<DoorbellData* const> doorbells, Deadline deadline,
                        Ready&& ready) {
  for (int i = 0; i < kSpinPauses; ++i) {
    if (ready()) return true;
    spin_pause();
  }
  DoorbellWaiters registered(doorbells);
  while (true) {
    registered.look();
    if (ready()) return true;
    if (!registered.sleep(deadline)) return ready();
  }
}

}  // namespace suture
