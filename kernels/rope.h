// Rotary position embedding (Su et al., RoFormer, 2021).
#pragma once

#include <cstdint>

#include "base/error.h"
#include "kernels/device.h"

namespace suture {

enum class RopePairing : uint8_t {
  kHalves,      // dimension i turns with i + head_dim / 2 (Hugging Face, "neox")
  kNeighbours,  // dimension 2i turns with 2i + 1 (the llama layout of GGUF)
};

struct RopeArgs {
  const float* x = nullptr;            // [n_rows][n_heads][head_dim]
  float* out = nullptr;                // same shape; may be x
  const int32_t* positions = nullptr;  // [n_rows], device memory; may be negative after a shift
  int64_t position_shift = 0;          // added to every position
  const float* frequencies = nullptr;  // [head_dim / 2] radians per position, device memory
  float attention_factor = 1;          // multiplies cos and sin (yarn, longrope)
  RopePairing pairing = RopePairing::kHalves;
  int64_t n_rows = 0;
  int32_t n_heads = 0;
  int32_t head_dim = 0;
};

// Angles are computed in float64 and rounded once.
Status rope(Stream& stream, const RopeArgs& args);

}  // namespace suture
