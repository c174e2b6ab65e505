// How a model is loaded, where that is not said by its file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/mapping.h"
#include "kernels/rope_schedule.h"

namespace suture {

// A rope scaling in place of the file's own; it takes the file's theta.
struct RopeScalingOverride {
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1;
  int64_t original_positions = 0;  // 0 = the length the model was trained for

  bool operator==(const RopeScalingOverride&) const = default;
};

// What happens to the entries of a sequence when its length moves the rope to other tables.
enum class RopeCrossing : uint8_t {
  kKeep,    // they keep the rotation they were written with
  kReread,  // the whole sequence is read again as a new stream
};

using FillMemory = std::function<Status(std::span<std::byte>)>;
// Memory that holds what `fill` writes into it, or what another process has written under the same
// key and size; only read from then on.
using PackedMemory =
    std::function<Result<Mapping>(const std::string& key, uint64_t bytes, const FillMemory& fill)>;

struct LoadOptions {
  std::string device = "cpu";  // as in open_device()
  int threads = 1;             // 0 = one per core
  std::optional<RopeScalingOverride> rope_scaling;
  int64_t rope_length = 0;          // every length counts as this one for the rope's table; 0 = off
  PackedMemory packed_memory = {};  // of the packed weights; empty = memory of the model's own
};

}  // namespace suture
