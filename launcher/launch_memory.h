// The memory that a launch takes, part by part, before anything is loaded.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/launch_spec.h"
#include "base/error.h"

namespace suture {

// One process, or with placement = "in-process" one model's part of the one process.
struct ProcessMemory {
  std::string name;
  // Processes of one file share its packed weights, and its pages where weights lie in the file:
  // they count once, with the first of them, whose name is given here for the others.
  std::string shares_weights_with;
  uint64_t weight_bytes = 0;
  uint64_t kv_bytes = 0;          // the slab, allocated at start, and rows that are mapped here
  uint64_t activation_bytes = 0;  // scratch of the forward pass
  uint64_t logits_bytes = 0;
  uint64_t runtime_bytes = 0;  // code, libraries, heap, threads, tokenizer

  uint64_t total_bytes() const {
    return weight_bytes + kv_bytes + activation_bytes + logits_bytes + runtime_bytes;
  }
};

struct LaunchMemory {
  std::vector<ProcessMemory> processes;  // in the order of the topology; the last is the launcher
  uint64_t available_bytes = 0;          // what new processes can have now

  uint64_t total_bytes() const;
  uint64_t kv_bytes() const;
};

// Reads metadata only.
Result<LaunchMemory> launch_memory(const LaunchSpec& spec, uint64_t available_bytes);

// kOutOfMemory with both numbers if the launch needs more than is available; the remedy says what
// would fit.
Status check_memory(const LaunchMemory& memory, const LaunchSpec& spec);

// A table in megabytes (10^6 bytes), one line a process.
std::string memory_table(const LaunchMemory& memory);
nlohmann::json to_json(const LaunchMemory& memory);

}  // namespace suture
