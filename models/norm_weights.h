// The norm weights of a whole model, for models that run with another's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/checkpoint.h"

namespace suture {

// Float32, as the forward pass uses them: an offset that the file leaves out is in it.
struct NormWeights {
  struct Layer {
    std::vector<float> attention;  // [hidden]
    std::vector<float> ffn;        // [hidden]

    bool operator==(const Layer&) const = default;
  };
  std::vector<Layer> layers;
  std::vector<float> output;  // [hidden]

  bool operator==(const NormWeights&) const = default;
};

// kCorrupt or kUnsupported names the tensor.
Result<NormWeights> read_norm_weights(const Checkpoint& checkpoint);

// Equal strings: equal weights.
std::string digest(const NormWeights& norms);

}  // namespace suture
