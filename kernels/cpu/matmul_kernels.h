// The inner loops of the matrix product, one table per instruction set.
//
// Each matmul_<isa>.cc compiles the same *_inl.h files for its target and fills a table. Within a
// table, every output element is a function of its own row of x and its own row of w only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace suture {

inline constexpr int64_t kQuantGroup = 32;   // activations that share one 8-bit scale
inline constexpr int64_t kQuantChunk = 256;  // weights that are unpacked together

// A row of activations in 8 bits: x[i] = q[i] * scale[i / 32]. Per 32 also for K-quants: it costs
// one multiplication per group over ggml's per-256 scale and keeps outliers from drowning the rest.
struct QuantisedRow {
  int8_t* q;       // [cols]
  float* scale;    // [cols / 32]
  float* sum;      // [cols / 32]: scale * (sum of the group's q)
  int32_t* total;  // [cols / 16]: sum of q of each half of a group
};

// Plain weights with the activations as they are.
struct PlainJob {
  const std::byte* w;  // [rows], row_bytes apart
  int64_t row_bytes;
  int64_t cols;
  const float* bias;  // [rows] or nullptr
  const float* x;     // [n_rows][cols]
  int64_t n_rows;
  float* out;  // [n_rows][out_stride]
  int64_t out_stride;
};

inline constexpr int kMaxTileX = 4;  // rows of x that meet one reading of the weights

struct MatmulKernels {
  // x [n] -> row; n is a multiple of kQuantGroup.
  void (*quantise)(const float* x, int64_t n, const QuantisedRow& row);
  // Output features [begin, end) of all rows, for plain weights.
  void (*decode_plain[kDTypes])(const PlainJob& job, int64_t begin, int64_t end) = {};
  // `elements` weights from a block boundary on.
  void (*dequantise[kDTypes])(const std::byte* source, int64_t elements, float* target) = {};
  // The others are for quantised weights.
  //
  // Up to 16 rows of `cols` weights, row_bytes apart, into one tile (kernels/packed_weights.h).
  void (*pack[kDTypes])(const std::byte* rows, int64_t row_bytes, int64_t n_rows, int64_t cols,
                        std::byte* tile) = {};
  // The 16 output rows of a tile with n_rows rows of x, 1 to kMaxTileX: out[r][16].
  void (*decode_tile[kDTypes])(const std::byte* tile, const QuantisedRow* x, int n_rows,
                               int64_t cols, float (*out)[16]) = {};
  // Weights of units [first, first + n) of a tile of `cols` columns as float32, the values that
  // dequantise() gives: panel[32 n][16]. `first` is a multiple of the units of a block.
  void (*unpack_tile[kDTypes])(const std::byte* tile, int64_t cols, int64_t first, int64_t n,
                               float* panel) = {};
};

extern const MatmulKernels kMatmulScalar;
extern const MatmulKernels kMatmulAvx2;
extern const MatmulKernels kMatmulAvx512;
extern const MatmulKernels kMatmulAvx512Vnni;

}  // namespace suture
