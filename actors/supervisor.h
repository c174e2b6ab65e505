// Starts the model processes of a launch and sees to it that none outlives it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "actors/tls_identity.h"
#include "actors/worker_ticket.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

class Supervisor {
 public:
  // `program` is run as: program worker --ticket FD.
  explicit Supervisor(std::filesystem::path program) : program_(std::move(program)) {}
  // Kills and reaps what is left.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // The process gets a process group of its own (Ctrl-C is for the launcher alone) and inherits
  // nothing but standard streams, the ticket and the TLS identity.
  Status start(WorkerTicket ticket, const TlsIdentity& identity);
  void kill(const std::string& name);
  // Reaps a process that has ended; "exit status 1", "killed by signal 9 (Killed)".
  std::string reap(const std::string& name);
  std::vector<pid_t> pids() const;
  // The process of that name; 0 if it is not running.
  pid_t pid_of(const std::string& name) const;

 private:
  struct Child {
    pid_t pid = 0;
    UniqueFd pidfd;
  };

  std::filesystem::path program_;
  mutable std::mutex mutex_;
  std::map<std::string, Child> children_;  // guarded by mutex_
};

}  // namespace suture
