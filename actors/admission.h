// Who may run now, and who waits for it: the queue in front of a launch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "actors/trace_log.h"
#include "base/error.h"
#include "bus/doorbell.h"

namespace suture {

struct AdmissionLimits {
  int64_t running = 1;
  int64_t waiting = 16;
};

struct AdmissionCounts {
  int64_t running = 0;
  int64_t waiting = 0;
};

// Who asks. Requests of one conversation never run side by side; 0 = the request belongs to none.
struct Asker {
  uint64_t client = 0;
  uint64_t conversation = 0;
};

// Clients take turns: the requests of one client begin in the order they came, and between two of
// them every other client that waits gets its turn.
//
// Who was refused comes back later, while those who were answered ask again at once and would take
// every place that becomes free. So places are kept for the refused in the order of their refusals,
// for a while, as long as others wait so that nothing stands idle for it. Without a queue nobody
// waits but the first of the refused, once it has come back when it was told to.
//
// All methods may be called from any thread.
class Admission {
 public:
  // The right to run, given back when it is destroyed. The Admission must outlive it.
  class Ticket {
   public:
    ~Ticket() {
      if (admission_ != nullptr) admission_->leave(conversation_, began_ns_);
    }
    Ticket(Ticket&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          conversation_(other.conversation_),
          began_ns_(other.began_ns_) {}
    Ticket& operator=(Ticket&&) = delete;

   private:
    friend class Admission;
    Ticket(Admission& admission, uint64_t conversation, int64_t began_ns)
        : admission_(&admission), conversation_(conversation), began_ns_(began_ns) {}

    Admission* admission_;
    uint64_t conversation_;
    int64_t began_ns_;
  };

  // `now_ns` is the clock that tells how long requests ran.
  explicit Admission(AdmissionLimits limits, std::function<int64_t()> now_ns = monotonic_ns)
      : limits_(limits), now_ns_(std::move(now_ns)) {}

  // Waits for this client's turn. At once kBusy with retry_after_seconds when there is no place,
  // and kClosed after close(). While waiting kCancelled, kTimeout at the deadline, kClosed after
  // stop().
  Result<Ticket> enter(Asker asker, Deadline deadline, const std::atomic<bool>& cancelled);

  // No new requests; those that wait or run go on.
  void close();
  // As close(), and nobody waits any more; those that run go on.
  void stop();

  AdmissionCounts counts() const;

 private:
  struct Waiter {
    uint64_t conversation = 0;
    std::condition_variable changed;
    bool admitted = false;  // guarded by mutex_
  };

  // A client that was refused a place: when it was told to come back, and until when a place is
  // kept for it.
  struct Refused {
    uint64_t client;
    int64_t due_ns;
    int64_t until_ns;
  };

  Status take_place(const Asker& asker);
  bool may_begin(const Asker& asker) const;
  bool may_wait(int64_t before, int64_t now_ns) const;
  tl::unexpected<Error> refuse(uint64_t client, int64_t now_ns);
  void leave(uint64_t conversation, int64_t began_ns);
  std::deque<uint64_t>::iterator next_turn();
  void admit_next();
  void withdraw(uint64_t client, const Waiter& waiter);
  Status wait_for_turn(std::unique_lock<std::mutex>& lock, Waiter& waiter, Deadline deadline,
                       const std::atomic<bool>& cancelled) const;
  Error busy(int64_t ahead) const;

  const AdmissionLimits limits_;
  const std::function<int64_t()> now_ns_;
  mutable std::mutex mutex_;  // guards what follows
  int64_t running_ = 0;
  std::set<uint64_t> talking_;  // conversations of which a request runs
  int64_t waiting_ = 0;
  std::map<uint64_t, std::deque<Waiter*>> queues_;  // by client; none of them is empty
  std::deque<uint64_t> turns_;                      // the clients of queues_, next one first
  std::deque<Refused> refused_;                     // who comes back, first one first
  double mean_seconds_ = 0;                         // of requests that ran lately; 0 = none yet
  bool closed_ = false;
  bool stopped_ = false;
};

}  // namespace suture
