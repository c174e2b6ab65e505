#include "bus/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/check.h"

namespace suture {
namespace {

// Shared futex operations: the key is the page of the memfd, not an address of this process.
long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* until) {
  return ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, until, nullptr,
                   FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

timespec to_timespec(Deadline deadline) {
  // The kernel refuses times before 0, which have passed as well.
  const auto since = std::max(deadline.time_since_epoch(), Deadline::duration::zero());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds);
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds.count());
  time.tv_nsec = static_cast<long>(rest.count());
  return time;
}

void ring_doorbell(DoorbellData& doorbell) {
  // seq_cst, both: see the proof in the header. The increment also releases the state change.
  doorbell.bell.fetch_add(1, std::memory_order_seq_cst);
  if (doorbell.waiters.load(std::memory_order_seq_cst) == 0) return;
  futex(doorbell.bell, FUTEX_WAKE, INT_MAX, nullptr);
}

void spin_pause() { __builtin_ia32_pause(); }

bool doorbell_sleep(DoorbellData& doorbell, uint32_t seen, Deadline deadline) {
  // FUTEX_WAIT_BITSET is FUTEX_WAIT with an absolute time on CLOCK_MONOTONIC, which is
  // steady_clock, so spurious returns do not stretch the deadline.
  const timespec until = to_timespec(deadline);
  if (futex(doorbell.bell, FUTEX_WAIT_BITSET, seen, &until) == 0) return true;
  const int error_number = errno;
  SUTURE_CHECK(error_number == EAGAIN || error_number == EINTR || error_number == ETIMEDOUT,
               "futex wait: errno={}", error_number);
  return error_number != ETIMEDOUT;
}

DoorbellWaiter::DoorbellWaiter(DoorbellData& doorbell) : doorbell_(doorbell) {
  // seq_cst: before the reads of bell and state that follow.
  doorbell_.waiters.fetch_add(1, std::memory_order_seq_cst);
}

DoorbellWaiter::~DoorbellWaiter() {
  // relaxed: too high a count only costs the ringer a system call.
  doorbell_.waiters.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace suture
