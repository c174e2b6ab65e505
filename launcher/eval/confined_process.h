// A Python program in a process that the sandbox's filter and resource limits confine.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace suture {

struct ConfinedCommand {
  std::string interpreter;   // absolute path of python3
  std::string_view program;  // source
  int cpu_seconds = 0;
  size_t memory_bytes = 0;  // address space
};

// The descriptor through which the program says that it came to its end.
inline constexpr int kVerdictFd = 3;

// Killed, if it still runs, and waited for when this object goes.
class ConfinedProcess {
 public:
  // Returns when the interpreter runs, confined; an error names the step that failed.
  static Result<ConfinedProcess> start(const ConfinedCommand& command,
                                       const std::vector<sock_filter>& filter);
  ConfinedProcess(ConfinedProcess&& other) noexcept;
  ConfinedProcess& operator=(ConfinedProcess&&) = delete;
  ~ConfinedProcess();

  int pidfd() const { return pidfd_.get(); }      // readable once the process has ended
  int output() const { return output_.get(); }    // standard output and error; does not block
  int verdict() const { return verdict_.get(); }  // what came through kVerdictFd; does not block

  void kill() const;

  struct End {
    int status = 0;  // as waitpid() gives it
    double cpu_seconds = 0;
  };
  // Waits for its end, once.
  Result<End> wait();

 private:
  ConfinedProcess(pid_t pid, UniqueFd output, UniqueFd verdict)
      : pid_(pid), output_(std::move(output)), verdict_(std::move(verdict)) {}

  pid_t pid_;
  UniqueFd pidfd_;
  UniqueFd output_;
  UniqueFd verdict_;
};

}  // namespace suture
