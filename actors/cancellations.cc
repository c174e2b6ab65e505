#include "actors/cancellations.h"

#include "bus/doorbell.h"

namespace suture {

Status check_cancelled(const CancelFlag& flag) {
  if (!flag.load(std::memory_order_acquire)) return {};
  return fail(ErrorCode::kCancelled, "the request was cancelled");
}

void Cancellations::expect(uint64_t key) {
  const std::lock_guard lock(mutex_);
  expect_locked(key);
}

std::shared_ptr<const CancelFlag> Cancellations::flag(uint64_t key) {
  const std::lock_guard lock(mutex_);
  return expect_locked(key);
}

std::shared_ptr<CancelFlag> Cancellations::expect_locked(uint64_t key) {
  std::shared_ptr<CancelFlag>& flag = flags_[key];
  if (!flag) flag = std::make_shared<CancelFlag>(stopping_);
  return flag;
}

void Cancellations::forget(uint64_t key) {
  const std::lock_guard lock(mutex_);
  flags_.erase(key);
}

void Cancellations::cancel(uint64_t key) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = flags_.find(key);
    if (found == flags_.end()) return;
    found->second->store(true, std::memory_order_release);  // the doorbell's protocol asks for it
  }
  ring_doorbell(doorbell_);
}

void Cancellations::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    // release: the doorbell's protocol asks for it.
    for (auto& [key, flag] : flags_) flag->store(true, std::memory_order_release);
  }
  ring_doorbell(doorbell_);
}

}  // namespace suture
