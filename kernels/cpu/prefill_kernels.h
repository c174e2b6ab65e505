// The inner loops of the product with prompts: one table for each way of multiplying.
//
// Rows of x are packed once for a product. A worker takes some panels of 16 output features at a
// time, unpacks a stretch of their columns into cache, and multiplies it with all rows of x.
// Stretches lie on a fixed grid, and a row's sums depend on that row of x and the panel only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/dtype.h"

namespace suture {

inline constexpr int64_t kPanelRows = 16;   // output features of a panel
inline constexpr int64_t kColumnUnit = 32;  // columns are filled up with zeros to a multiple

// Where a row of x goes. Its stretches lie stretch_bytes apart.
struct PackedRowSlot {
  std::byte* tile;  // the first stretch of the tile that the row belongs to
  int64_t row;      // in the tile
  int64_t stretch_bytes;
};

// A stretch of some output features: what is missing of 16 features or of `columns` is 0.
struct PlainFeatures {
  const std::byte* first;  // [n_features], row_bytes apart
  int64_t row_bytes;
  int64_t n_features;
  int64_t n_columns;  // that there are
  int64_t columns;    // of the panel, a multiple of kColumnUnit
};

// Rows of x times panels over one stretch; adds to sums.
struct PrefillBlock {
  const std::byte* x;  // packed tiles, one after another
  int64_t n_rows;
  const std::byte* panels;  // [n_panels], aligned to 64 bytes
  int64_t n_panels;
  int64_t columns;  // a multiple of kColumnUnit, up to `stretch`
  float* sums;      // [n_rows, filled up to whole tiles][sums_stride]
  int64_t sums_stride;
};

struct PrefillKernels {
  int64_t stretch;       // columns multiplied before the sums go to memory
  int64_t tile_rows;     // rows of x that are packed together
  int64_t x_tile_bytes;  // one tile of x over one stretch
  int64_t panel_bytes;   // one panel over one stretch

  // Packs a row of `columns` values, or zeros for a row that does not exist (x == nullptr). `rest`
  // asks for what the row as packed without it leaves out of x.
  void (*pack_row)(const float* x, int64_t columns, bool rest, const PackedRowSlot& slot);
  // Whether a row loses too much when it is packed, and its rest is to be packed and multiplied as
  // well; nullptr where that is never so.
  bool (*needs_rest)(const float* x, int64_t columns) = nullptr;

  // Makes a panel of `columns` columns from float32 values [columns][16]; nullptr where those are
  // the panel.
  void (*pack_panel)(const float* values, int64_t columns, std::byte* panel) = nullptr;
  // Makes a panel of units [first, first + n) of a packed tile of `columns` columns without the
  // detour over float32; nullptr where there is no such way.
  void (*unpack_tile[kDTypes])(const std::byte* tile, int64_t columns, int64_t first, int64_t n,
                               std::byte* panel) = {};

  // The same of plain weights in rows.
  void (*pack_rows[kDTypes])(const PlainFeatures& rows, std::byte* panel) = {};

  void (*multiply[kDTypes])(const PrefillBlock& block) = {};  // by the type of the weights
};

extern const PrefillKernels kPrefillScalar;      // float32 products
extern const PrefillKernels kPrefillAvx2;        // float32 products
extern const PrefillKernels kPrefillAvx512;      // float32 products
extern const PrefillKernels kPrefillAvx512Vnni;  // 8-bit integer products, quantised types only
extern const PrefillKernels kPrefillAvx512Bf16;  // bfloat16 products
extern const PrefillKernels kPrefillAmx;         // bfloat16 products

// Float32 weights keep float32 products everywhere.
const PrefillKernels& prefill_kernels(Isa isa, DType weights);

}  // namespace suture
