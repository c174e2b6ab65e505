// Rows of one model's K/V rewritten for another model: other rope frequencies, other pairing of
// dimensions, other element type, other positions (design §4). K is turned once, by the difference
// of the two rotations, and rounded once.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/kv_layout.h"
#include "kernels/rope.h"

namespace suture {

// How the K rows of one side are rotated.
struct KvRotation {
  const float* frequencies = nullptr;  // [head_dim / 2] radians per position, device memory
  float attention_factor = 1;          // by which the rotation has multiplied K
  RopePairing pairing = RopePairing::kHalves;
  const int32_t* positions = nullptr;  // [n_rows], device memory
};

struct KvMapArgs {
  KvShape from_shape;
  KvLayerView from;
  const int32_t* from_entries = nullptr;  // [n_rows], device memory: the source of each row
  KvRotation from_rotation;
  KvShape to_shape;  // as many K/V heads and dimensions
  KvLayerView to;
  int64_t first_entry = 0;  // the rows become entries first_entry .. first_entry + n_rows
  KvRotation to_rotation;
  int64_t n_rows = 0;
};

// Angles are computed in float64 and rounded once.
Status kv_map(Stream& stream, const KvMapArgs& args);

}  // namespace suture
