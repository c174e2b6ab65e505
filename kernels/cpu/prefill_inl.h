// Reading a prompt: a register tile of float32 products with a packed panel of weights.
//
// The target's .cc defines `Wide` (its widest float vector), multiply_add() on it, kTileRows, and
// broadcast<Wide>(). A tile is kTileRows rows of x by two Wide of output features.
#pragma once

#include "kernels/cpu/prefill_kernels.h"
#include "kernels/cpu/vectors_inl.h"

namespace suture {
namespace {

inline constexpr int64_t kLanes = sizeof(Wide) / sizeof(float);
inline constexpr int64_t kPanelRows = 2 * kLanes;

template <int kRows>
void prefill_rows(const PrefillTile& tile) {
  Wide sums[kRows][2] = {};
  const float* x = tile.x;
  const float* packed = tile.packed;
  for (int64_t k = 0; k < tile.depth; ++k, ++x, packed += kPanelRows) {
    const Wide w0 = load<Wide>(packed);
    const Wide w1 = load<Wide>(packed + kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Wide xr = broadcast(x[r * kTileStride]);
      sums[r][0] = multiply_add(xr, w0, sums[r][0]);
      sums[r][1] = multiply_add(xr, w1, sums[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int half = 0; half < 2; ++half) {
      const Wide base = load<Wide>(tile.base + r * tile.base_stride + half * kLanes);
      store(tile.out + r * tile.out_stride + half * kLanes, base + sums[r][half]);
    }
  }
}

template <int kRows>
void prefill_tile(const PrefillTile& tile) {
  if constexpr (kRows > 1) {
    if (tile.n_rows < kRows) return prefill_tile<kRows - 1>(tile);
  }
  prefill_rows<kRows>(tile);
}

constexpr PrefillKernels make_prefill_kernels() {
  return {prefill_tile<kTileRows>, kPanelRows, kTileRows};
}

}  // namespace
}  // namespace suture
