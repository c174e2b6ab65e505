// The inner loops of the product with prompts, one table per instruction set.
//
// Each prefill_<isa>.cc compiles prefill_inl.h for its target and fills a table. Within a table,
// every output element is a function of its own row of x and its own row of w only.
#pragma once

#include <cstdint>

namespace suture {

// Prefill sums this many products before it adds them to the output: a fixed grid over k, short
// enough that rounding stays small and that a block of weights stays in the second-level cache.
inline constexpr int64_t kPrefillDepth = 256;
// Rows of x are copied this far apart. In place, rows of 2048 values and the like would all fall
// into the same few sets of the first-level cache.
inline constexpr int64_t kTileStride = kPrefillDepth + 16;

// One register tile: out[r][m] = base[r][m] + sum_k x[r][k] * packed[k][m], m < panel_rows.
struct PrefillTile {
  const float* x;       // [n_rows], kTileStride apart
  int64_t n_rows;       // 1 .. tile_rows
  const float* packed;  // [depth][panel_rows], aligned to 64 bytes
  int64_t depth;        // up to kPrefillDepth
  const float* base;    // [n_rows], base_stride apart; may be out
  int64_t base_stride;
  float* out;  // [n_rows], out_stride apart
  int64_t out_stride;
};

struct PrefillKernels {
  void (*multiply)(const PrefillTile& tile);
  int64_t panel_rows;  // output features of a tile
  int64_t tile_rows;   // rows of x in a tile, at most
};

extern const PrefillKernels kPrefillScalar;
extern const PrefillKernels kPrefillAvx2;
extern const PrefillKernels kPrefillAvx512;

}  // namespace suture
