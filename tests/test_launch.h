// A `suture launch` in a process of its own, as another terminal sees it.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "base/unique_fd.h"

namespace suture {

class RunningLaunch {
 public:
  // Runs `suture launch TOPOLOGY --name NAME --json` and waits until it says that it is ready.
  RunningLaunch(const std::filesystem::path& topology, const std::string& name);
  ~RunningLaunch();
  RunningLaunch(const RunningLaunch&) = delete;
  RunningLaunch& operator=(const RunningLaunch&) = delete;

  pid_t pid() const { return pid_; }
  const std::vector<pid_t>& workers() const { return workers_; }
  // What it said when it was ready.
  const nlohmann::json& ready() const { return ready_; }

  // Sends the signal and returns the exit status as a shell would show it.
  int end(int signal_number);
  // The same, of a launch that has been told to end.
  int wait();

 private:
  pid_t pid_ = 0;
  UniqueFd output_;
  std::vector<pid_t> workers_;
  nlohmann::json ready_;
};

// A master and a slave that reads log.txt, both of the smallest model.
extern const std::string kBoatsTopology;

// A small topology in a folder of its own, which is the run-time folder as well. Skips its tests
// where the model is not cached.
class LaunchCommandTest : public testing::Test {
 protected:
  void SetUp() override;

  TestFolder folder_;
  std::filesystem::path topology_;  // boats.toml, with kBoatsTopology
};

}  // namespace suture
