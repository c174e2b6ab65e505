// Matrix product with a weight matrix in any stored type:
//   out[r][m] = sum_k x[r][k] * w[m][k] + bias[m]
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/dtype.h"

namespace suture {

enum class WeightLayout : uint8_t {
  kRows,   // row-major, as in a file, each row a whole number of dtype blocks
  kTiles,  // quantised types, packed for the CPU (kernels/packed_weights.h)
};

// A weight matrix [rows][cols].
struct WeightView {
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;  // device memory
  int64_t rows = 0;                 // output features
  int64_t cols = 0;                 // input features
  WeightLayout layout = WeightLayout::kRows;
};

// Which kernel computes a row. The choice follows from what the row is (prompt or generated),
// never from how many rows run together, so that a row has the same bits in every batch.
enum class MatmulPath : uint8_t {
  kPrefill,  // weights unpacked panel by panel for many rows: arithmetic-bound
  kDecode,   // activations quantised to 8 bits, integer dot products: bandwidth-bound
};

// One of several matrices that meet the same x.
struct MatmulPart {
  WeightView w;
  const float* bias = nullptr;  // [w.rows] or nullptr
  float* out = nullptr;         // [n_rows][w.rows]
};

struct MatmulGroupArgs {
  const float* x = nullptr;           // [n_rows][cols of every part]
  std::span<const MatmulPart> parts;  // up to kMaxMatmulParts
  int64_t n_rows = 0;
  MatmulPath path = MatmulPath::kPrefill;
};
inline constexpr size_t kMaxMatmulParts = 4;

struct MatmulArgs {
  const float* x = nullptr;  // [n_rows][w.cols]
  WeightView w;
  const float* bias = nullptr;  // [w.rows] or nullptr
  float* out = nullptr;         // [n_rows][w.rows]
  int64_t n_rows = 0;
  MatmulPath path = MatmulPath::kPrefill;
};

Status matmul(Stream& stream, const MatmulArgs& args);
// The same products, to the same bits, with the work on x done once for all parts.
Status matmul(Stream& stream, const MatmulGroupArgs& args);

// Float32 values of `elements` consecutive elements starting at a block boundary: host reference
// used by tests and by tools that inspect weights.
Status dequantise(DType dtype, const std::byte* source, int64_t elements, float* target);

}  // namespace suture
