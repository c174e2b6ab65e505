// The memory that a model takes beside its file and its K/V, before it is loaded.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "models/checkpoint.h"

namespace suture {

struct ModelMemory {
  // Of the file, used where it lies, without the rows of the embedding that a process looks up: the
  // system can drop those pages at any time. Shared with other processes, as are packed weights.
  uint64_t mapped_bytes = 0;
  uint64_t packed_bytes = 0;      // quantised weights as the kernels read them
  uint64_t converted_bytes = 0;   // weights that the forward pass wants in another form
  uint64_t activation_bytes = 0;  // scratch of the forward pass
  uint64_t logits_bytes = 0;
};

// Loads the weights' descriptions and makes a forward pass on a device that only counts
// (kernels/counting_device.h); so it also refuses, as loading does, what this build cannot run.
Result<ModelMemory> model_memory(const Checkpoint& checkpoint);

}  // namespace suture
