// How quantised weights lie in tiles (kernels/packed_weights.h), type by type.
//
// A tile holds kPackedRows = 16 output rows and all their columns, cut into units of 32 columns,
// and these into chunks of 8 units (fewer in the last). Each chunk has two parts, both beginning at
// a multiple of 64 bytes, so that a tile is read from one end to the other:
//
//   scales    K types: 16 halves d, then 16 halves dmin if they have minima; then for each unit 16
//             bytes of scale codes for each scale of a row, then as many of minima:
//             w = d * code * (q - bias) - dmin * minimum code
//             legacy types: for each unit 16 halves, then 16 minima (halves) if the type has them
//   bits      byte vectors of 64 bytes: 16 rows of 4 consecutive columns (a quad), so that one
//             32-bit lane belongs to one output row. For each unit first the low bits of q:
//               4: vector j holds quad j in its low and quad j + 4 in its high halves of bytes
//               8: vector j is quad j
//               2: bits 2i of vector j belong to quad 4j + i
//             then the high bits: 2 as above, or 1: bit i of the only vector belongs to quad i
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace suture {

struct PackedFormat {
  int low_bits = 0;   // 2, 4 or 8
  int high_bits = 0;  // 0, 1 or 2, above the low ones
  int bias = 0;       // weights are stored as q = w + bias, without a sign
  bool has_minimum = false;
  bool is_fine = false;        // a scale for 16 columns, not 32
  bool is_k = false;           // scales are codes under a common d
  bool signed_scales = false;  // K types: scale codes are signed
  bool is_table = false;       // the 4 bits are an index into kIq4Levels

  constexpr int scales() const { return is_fine ? 2 : 1; }  // of a row in a unit
  constexpr int64_t units_per_head() const { return 8; }    // of a chunk
  constexpr int64_t head_bytes() const { return !is_k ? 0 : has_minimum ? 64 : 32; }
  constexpr int64_t unit_scale_bytes() const {
    return (is_k ? 16 : 32) * scales() * (has_minimum ? 2 : 1);
  }
  constexpr int64_t unit_bit_bytes() const { return (low_bits + high_bits) * 64; }
  constexpr int64_t chunk_scale_bytes(int64_t units) const {
    return (head_bytes() + units * unit_scale_bytes() + 63) / 64 * 64;
  }
  constexpr int64_t chunk_bytes(int64_t units) const {
    return units == 0 ? 0 : chunk_scale_bytes(units) + units * unit_bit_bytes();
  }
  // Of a tile of `columns`, a multiple of what the type stores together (32, or 256 for K types).
  constexpr int64_t tile_bytes(int64_t columns) const {
    return columns / 256 * chunk_bytes(8) + chunk_bytes(columns % 256 / 32);
  }
};

constexpr PackedFormat packed_format(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0: return {.low_bits = 4, .bias = 8};
    case DType::kQ4_1: return {.low_bits = 4, .has_minimum = true};
    case DType::kQ5_0: return {.low_bits = 4, .high_bits = 1, .bias = 16};
    case DType::kQ5_1: return {.low_bits = 4, .high_bits = 1, .has_minimum = true};
    case DType::kQ8_0: return {.low_bits = 8, .bias = 128};
    case DType::kQ2_K: return {.low_bits = 2, .has_minimum = true, .is_fine = true, .is_k = true};
    case DType::kQ3_K:
      return {.low_bits = 2,
              .high_bits = 1,
              .bias = 4,
              .is_fine = true,
              .is_k = true,
              .signed_scales = true};
    case DType::kQ4_K: return {.low_bits = 4, .has_minimum = true, .is_k = true};
    case DType::kQ5_K: return {.low_bits = 4, .high_bits = 1, .has_minimum = true, .is_k = true};
    case DType::kQ6_K:
      return {.low_bits = 4,
              .high_bits = 2,
              .bias = 32,
              .is_fine = true,
              .is_k = true,
              .signed_scales = true};
    case DType::kIq4Nl: return {.low_bits = 4, .bias = 128, .is_table = true};
    default: return {};
  }
}

// ggml's 16 levels of iq4_nl, and the bias that makes them positive.
inline constexpr int kIq4Bias = 128;
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace suture
