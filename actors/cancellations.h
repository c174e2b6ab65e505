// Which sequences of a model process are to end soon.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "bus/layout.h"

namespace suture {

using CancelFlag = std::atomic<bool>;

// kCancelled once the flag is set.
Status check_cancelled(const CancelFlag& flag);

// May be used by any thread.
class Cancellations {
 public:
  // From now on cancel() reaches what has this key, whether it has begun or not.
  void expect(uint64_t key);
  // Of what begins now; expected if it was not before.
  std::shared_ptr<const CancelFlag> flag(uint64_t key);
  // It has ended.
  void forget(uint64_t key);

  void cancel(uint64_t key);
  // All, now and later.
  void stop();

  // Rung when there is more to end.
  DoorbellData& doorbell() { return doorbell_; }

 private:
  std::shared_ptr<CancelFlag> expect_locked(uint64_t key);

  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<CancelFlag>> flags_;  // by key; guarded by mutex_
  bool stopping_ = false;                                  // guarded by mutex_
  DoorbellData doorbell_{};                                // this process's own
};

}  // namespace suture
