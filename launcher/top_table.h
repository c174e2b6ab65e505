// What `suture top` shows: two looks at a launch, and what happened between them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/launch_snapshot.h"

namespace suture {

struct ProcessRates {
  double read_per_second = 0;       // tokens of prompts and documents
  double generated_per_second = 0;  // tokens drawn or followed, one by one
  int64_t waits = 0;                // since the last look, for other processes' K/V
  double wait_seconds = 0;
};

// K/V of one request, or of the contexts that serve all of them, over all processes.
struct RequestKv {
  uint64_t request = 0;  // 0 = contexts
  int64_t tokens = 0;
  uint64_t bytes = 0;
  std::vector<std::pair<std::string, uint64_t>> by_process;  // name, bytes
};

struct TopFigures {
  std::string launch;
  LaunchSnapshot now;
  std::vector<ProcessRates> rates;  // [now.processes]; zeros for one that was not there before
  std::vector<RequestKv> requests;  // ascending
  std::vector<std::string> warnings;
};

TopFigures top_figures(std::string launch, const LaunchSnapshot& before, LaunchSnapshot now);

// Pools of accelerators only: a CPU's K/V is reserved at start on purpose.
bool reserves_too_much(const std::string& device, uint64_t reserved_bytes,
                       uint64_t allocated_bytes);

std::string top_table(const TopFigures& figures);
nlohmann::json to_json(const TopFigures& figures);

}  // namespace suture
