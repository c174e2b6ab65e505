#include "bus/doorbell_set.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/check.h"

namespace suture {
namespace {

// Between two looks at doorbells for which the kernel cannot wait.
constexpr std::chrono::milliseconds kLook{1};

// What futex_waitv says where there is none: kernels before 5.16, and some sandboxes.
bool is_refused(int error_number) { return error_number == ENOSYS || error_number == EPERM; }

}  // namespace

DoorbellWaiters::DoorbellWaiters(std::span<DoorbellData* const> doorbells) : doorbells_(doorbells) {
  SUTURE_CHECK(!doorbells.empty(), "nobody could end a wait for no doorbell");
  // seq_cst: before the reads of bells and state that follow.
  for (DoorbellData* doorbell : doorbells_)
    doorbell->waiters.fetch_add(1, std::memory_order_seq_cst);
}

DoorbellWaiters::~DoorbellWaiters() {
  // relaxed: too high a count only costs the ringer a system call.
  for (DoorbellData* doorbell : doorbells_)
    doorbell->waiters.fetch_sub(1, std::memory_order_relaxed);
}

void DoorbellWaiters::look() {
  const size_t count = std::min(doorbells_.size(), kMostFutexes);
  for (size_t i = 0; i < count; ++i) {
    std::atomic<uint32_t>& bell = doorbells_[i]->bell;
    futex_waitv& futex = futexes_[i];
    futex = {};
    // seq_cst: ordered after the increments of waiters and before the test.
    futex.val = bell.load(std::memory_order_seq_cst);
    futex.uaddr = reinterpret_cast<uint64_t>(&bell);
    futex.flags = FUTEX_32;  // not private: the bells are shared between processes
  }
}

bool DoorbellWaiters::sleep(Deadline deadline) {
  const size_t count = std::min(doorbells_.size(), kMostFutexes);
  const Deadline soon = std::min(deadline, deadline_in(kLook));
  const Deadline until = doorbells_.size() > count ? soon : deadline;
  const timespec time = to_timespec(until);
  if (::syscall(SYS_futex_waitv, futexes_.data(), count, 0, &time, CLOCK_MONOTONIC) >= 0)
    return true;
  const int error_number = errno;
  if (is_refused(error_number))
    return doorbell_sleep(*doorbells_[0], static_cast<uint32_t>(futexes_[0].val), soon) ||
           soon < deadline;
  SUTURE_CHECK(error_number == EAGAIN || error_number == EINTR || error_number == ETIMEDOUT,
               "futex wait: errno={}", error_number);
  return error_number != ETIMEDOUT || until < deadline;
}

}  // namespace suture
