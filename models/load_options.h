// How a model is loaded, where that is not said by its file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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

struct LoadOptions {
  std::string device = "cpu";  // as in open_device()
  int threads = 1;             // 0 = one per core
  std::optional<RopeScalingOverride> rope_scaling;
  int64_t rope_length = 0;  // every length counts as this one for the rope's table; 0 = off
};

}  // namespace suture
