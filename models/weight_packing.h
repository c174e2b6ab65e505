// Quantised weights in the layout of the CPU's kernels (kernels/packed_weights.h), made once when a
// model is loaded. The file's mapping stays for what is not packed.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "models/checkpoint.h"
#include "models/load_options.h"
#include "models/weights.h"

namespace suture {

// Of memory, for all that pack_weights() packs.
Result<uint64_t> packed_weight_bytes(const Weights& weights);

// Puts tiles in the place of the quantised matrices in rows. The embedding stays as it is: its rows
// are looked up one by one; where it is also the output matrix, only that is packed. `memory`, if
// there is one, gives the place for models of this fingerprint; else it is this process's own. What
// was packed leaves the file's mapping.
Status pack_weights(const Checkpoint& checkpoint, const std::string& fingerprint, int threads,
                    const PackedMemory& memory, Weights& weights);

// Whether all of a tensor is used where it lies in the file, once the weights are packed.
bool is_used_in_place(const TensorInfo& tensor, const Weights& weights);

}  // namespace suture
