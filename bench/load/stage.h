// Many clients at once, each with one question on its way at any time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/load/reference.h"

namespace suture {

struct StageOptions {
  std::string launch;
  size_t clients = 4;
  double seconds = 60;
  uint64_t seed = 1;
};

// What one client has seen.
struct ClientTally {
  int64_t completed = 0;  // answers as alone
  int64_t completed_tokens = 0;
  int64_t cancelled = 0;  // ended as the client wanted
  int64_t ended_by_deadline = 0;
  int64_t timeouts = 0;  // the deadline passed before its turn
  int64_t hung_up = 0;
  int64_t read_again = 0;                   // of these, of a conversation whose K/V had gone
  int64_t refusals = 0;                     // followed by another try
  std::vector<double> first_token_seconds;  // of answers with a token, from asking
  std::vector<double> computed_seconds;     // the same without the wait
  std::vector<double> waited_seconds;
  std::vector<double> gaps;
  std::vector<double> request_seconds;  // of completed ones
  std::vector<std::string> faults;

  int64_t ended() const { return completed + cancelled + ended_by_deadline + timeouts + hung_up; }
};

// Returns when all clients have ended the question they were at when the time was over.
std::vector<ClientTally> run_stage(const StageOptions& options,
                                   const std::vector<LoadScript>& scripts,
                                   const std::vector<Reference>& references);

}  // namespace suture
