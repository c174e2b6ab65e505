// A slave that runs with its master's norm weights (norm = "master" in the topology): its K/V then
// come from the scale of activations that the master's layers expect.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "models/checkpoint.h"
#include "models/norm_weights.h"
#include "models/weights.h"

namespace suture {

// Weights of `n_layers` layers: layer l lies at the relative depth l / (n_layers - 1), between two
// layers of `source`, and takes both in proportion (the nearer one more). The output norm is that
// of the source.
NormWeights interpolate_norms(const NormWeights& source, int32_t n_layers);

// The master's norms for a slave of that shape. kIncompatible unless both have the same hidden
// size.
Result<NormWeights> norms_from_master(const Checkpoint& master, const ModelConfig& slave);

struct NormDifference {
  float largest = 0;  // absolute
  std::string where;  // "layer 3, attention"; empty when nothing differs
};

// Of two models of the same shape.
NormDifference compare_norms(const NormWeights& a, const NormWeights& b);

// How far loaded weights may be from what they were computed from.
inline constexpr float kNormTolerance = 1e-5f;

// Reads the loaded weights back and compares them with the master's file, layer by layer.
// kCorrupt names the largest difference if it is beyond the tolerance.
Status verify_norms(const Weights& loaded, Stream& stream, const ModelConfig& slave,
                    const Checkpoint& master);

}  // namespace suture
