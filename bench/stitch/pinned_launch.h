// A launch for a measurement: its master on one core, everything else on another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "bench/load/client.h"
#include "bench/load/launched.h"

namespace suture {

struct PinnedLaunchSpec {
  std::string model;
  std::filesystem::path program;  // suture
  std::filesystem::path folder;   // for the topology file
  std::string name;
  std::string slave_gain;  // "0", "-inf" of a slave that follows the master; empty = no slave
  std::string slave;       // its model; empty = the master's
  std::string projector;   // file that maps its rows; empty = they are taken as they are
  int64_t max_tokens = 0;  // own, prompt and answer
  int master_core = 0;
  int other_core = 1;
};

// The topology file's text.
std::string topology_of(const PinnedLaunchSpec& spec);

class PinnedLaunch {
 public:
  static Result<PinnedLaunch> start(const PinnedLaunchSpec& spec);

  // Tokens a second that the master generates behind a question of exactly `prompt_tokens`.
  Result<double> decode_rate(int64_t prompt_tokens, int64_t generated_tokens);
  Status end() { return launch_.end(); }

 private:
  PinnedLaunch(LaunchProcess launch, LoadConnection connection)
      : launch_(std::move(launch)), connection_(std::move(connection)) {}
  Result<Answer> ask(int64_t words, int64_t generated_tokens);

  LaunchProcess launch_;
  LoadConnection connection_;
  int64_t tokens_beside_words_ = -1;  // of a question; not known yet
};

}  // namespace suture
