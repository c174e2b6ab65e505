// A runner in a process of its own, on cores of its own, that stands still unless it is asked.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bench/engine/runner_task.h"

namespace suture {

struct RunnerCommand {
  std::string program;
  std::string model;
  int threads = 1;
  int64_t capacity = 0;    // tokens
  std::vector<int> cores;  // it may use these
};

class RunnerProcess {
 public:
  // Returns when it has its first token of a short prompt.
  static Result<RunnerProcess> start(const RunnerCommand& command);
  ~RunnerProcess();
  RunnerProcess(RunnerProcess&& other) noexcept;
  RunnerProcess& operator=(RunnerProcess&&) = delete;

  // From the start of the process until then.
  double start_seconds() const { return start_seconds_; }

  // run() is begin() and finish(). Before and after, the process is stopped: threads that spin for
  // a while when their work is done take no time from others.
  Result<RunnerSeconds> run(const RunnerTask& task);
  Status begin(const RunnerTask& task);
  Result<RunnerSeconds> finish();

 private:
  RunnerProcess(std::string program, pid_t pid, UniqueFd to, UniqueFd from)
      : program_(std::move(program)), pid_(pid), to_(std::move(to)), from_(std::move(from)) {}
  Result<std::string> read_line();
  // Waits for the end of a process that has closed its output.
  std::string how_it_ended();

  std::string program_;
  pid_t pid_;
  UniqueFd to_;
  UniqueFd from_;
  double start_seconds_ = 0;
};

}  // namespace suture
