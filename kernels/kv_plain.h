// Rows of K/V as they were before K was rotated, of several layers side by side in float32.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/kv_layout.h"
#include "kernels/rope.h"

namespace suture {

struct KvPlainLayer {
  KvLayerView kv;
  const float* frequencies = nullptr;  // [head_dim / 2] radians per position, device memory
  float attention_factor = 1;          // by which the rotation has multiplied K
};

struct KvPlainArgs {
  KvShape shape;                         // of every layer
  std::span<const KvPlainLayer> layers;  // host memory
  RopePairing pairing = RopePairing::kHalves;
  const int32_t* entries = nullptr;    // [n_rows], device memory: the source of each row
  const int32_t* positions = nullptr;  // [n_rows], device memory: at which it was rotated
  int64_t n_rows = 0;
  float* key = nullptr;    // [n_rows][layers][n_kv_heads][head_dim]
  float* value = nullptr;  // the same
};

// Angles are computed in float64 and rounded once.
Status kv_plain(Stream& stream, const KvPlainArgs& args);

}  // namespace suture
