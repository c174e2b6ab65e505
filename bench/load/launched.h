// A `suture launch` in a process of its own, started for the measurement or found running.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "bench/load/process_watch.h"

namespace suture {

class LaunchProcess {
 public:
  // Runs `PROGRAM launch TOPOLOGY --name NAME --json` and waits until it is ready.
  static Result<LaunchProcess> start(const std::filesystem::path& program,
                                     const std::filesystem::path& topology,
                                     const std::string& name);
  // kNotFound if no launch of that name lives.
  static Result<LaunchProcess> attach(const std::string& name);

  // Kills it if it was started here and has not been ended.
  ~LaunchProcess();
  LaunchProcess(LaunchProcess&& other) noexcept;
  LaunchProcess& operator=(LaunchProcess&&) = delete;

  const std::string& name() const { return name_; }
  // The launch and its model processes.
  Result<std::vector<WatchedProcess>> processes() const;
  // SIGTERM to a launch that was started here, whose processes and socket must be gone then.
  Status end();

 private:
  LaunchProcess(std::string name, pid_t pid, bool started, UniqueFd output)
      : name_(std::move(name)), pid_(pid), started_(started), output_(std::move(output)) {}

  std::string name_;
  pid_t pid_;
  bool started_;
  UniqueFd output_;
};

}  // namespace suture
