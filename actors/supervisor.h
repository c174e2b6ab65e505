// Starts the model processes of a launch, tells when one has ended, and sees to it that none
// outlives the launch.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/tls_identity.h"
#include "actors/worker_ticket.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

// A process has ended and was reaped, or could not be started.
struct WorkerExit {
  std::string name;
  uint64_t incarnation = 0;  // as in its ticket
  pid_t pid = 0;             // 0: it could not be started
  std::string how;           // "exit status 1", "killed by signal 9 (Killed)"
};

// Everything happens on one thread of its own: workers die with the thread that started them
// (worker.cc asks the kernel for it), even if the launcher is killed and they are stopped.
class Supervisor {
 public:
  // `program` is run as: program worker --ticket FD. `on_exit` runs on the supervisor's thread, for
  // every process but those that the destructor ends. `identity` must outlive the object.
  Supervisor(std::filesystem::path program, const TlsIdentity& identity,
             std::function<void(const WorkerExit&)> on_exit);
  // Kills and reaps what is left.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // After the delay; from any thread. The process gets a process group of its own (Ctrl-C is for
  // the launcher alone) and inherits nothing but standard streams, ticket and identity.
  void start(WorkerTicket ticket, std::chrono::milliseconds delay = {});
  // Nothing happens if another incarnation of that name runs by now.
  void kill(const std::string& name, uint64_t incarnation);

  std::vector<pid_t> pids() const;  // in the order of names
  // The process of that name; 0 if it is not running.
  pid_t pid_of(const std::string& name) const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Order {
    Clock::time_point at;
    WorkerTicket ticket;
  };
  struct Child {
    pid_t pid = 0;
    UniqueFd pidfd;
    uint64_t incarnation = 0;
  };

  void run();
  bool wait();  // false: the end
  void start_due();
  Status spawn(WorkerTicket ticket);
  void reap_ended();
  void wake() const;

  const std::filesystem::path program_;
  const TlsIdentity& identity_;
  const std::function<void(const WorkerExit&)> on_exit_;
  UniqueFd wake_;  // eventfd
  mutable std::mutex mutex_;
  std::vector<Order> orders_;              // guarded by mutex_
  std::map<std::string, Child> children_;  // by name; guarded by mutex_
  bool stopping_ = false;                  // guarded by mutex_
  std::thread thread_;                     // last: starts when the rest is ready
};

}  // namespace suture
