// The memory that a launch takes, before anything is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/launch_spec.h"
#include "base/error.h"

namespace suture {

struct MemoryNeed {
  std::string name;
  uint64_t weight_bytes = 0;  // the file's; 0 if a model above shares the file's pages
  uint64_t kv_bytes = 0;      // the slab that is allocated at start
};

// One entry a model, in the order of the topology; reads metadata only.
Result<std::vector<MemoryNeed>> launch_memory(const LaunchSpec& spec);

uint64_t total_bytes(const std::vector<MemoryNeed>& needs);

// kOutOfMemory with both numbers if the launch needs more than is available.
Status check_memory(const std::vector<MemoryNeed>& needs, uint64_t available_bytes,
                    const LaunchSpec& spec);

}  // namespace suture
