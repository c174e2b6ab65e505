// Decoding with packed weights: integer dot products of 16 output rows at a time with activations
// in 8 bits. Float32 additions follow the order of the columns, the same in every batch.
#pragma once

#include "kernels/cpu/packed_inl.h"

namespace suture {
namespace {

// Bytes ahead: what memory takes to answer, while the units before are being computed. Into the
// second-level cache: the first is too small for what several rows of x make of the distance.
inline constexpr int64_t kTilePrefetch = 8192;

// Asks for the bytes of one unit's share of a tile, kTilePrefetch ahead of unit `unit`. The next
// tile follows in memory, so that a worker's tiles are one stream.
template <DType kType>
SUTURE_INLINE void prefetch_unit(const std::byte* tile, int64_t unit) {
  constexpr int64_t kBytes = packed_format(kType).chunk_bytes(8) / 8;
  const std::byte* ahead = tile + unit * kBytes + kTilePrefetch;
  for (int64_t line = 0; line < kBytes; line += 64) __builtin_prefetch(ahead + line, 0, 2);
}

SUTURE_INLINE RowFloats splat_rows(float x) { return RowFloats{} + x; }
SUTURE_INLINE RowInts splat_rows(int32_t x) { return RowInts{} + x; }

// Sum over quads [kFirst, kFirst + kCount) of (q - bias) * x; `x_sum` is that of x alone.
template <DType kType, int kFirst, int kCount>
SUTURE_INLINE RowFloats dot_unit(const Unit& unit, const int8_t* x, int32_t x_sum) {
  constexpr PackedFormat kFormat = packed_format(kType);
  RowInts sums = splat_rows(-kFormat.bias * x_sum);
#pragma GCC unroll 8
  for (int i = kFirst; i < kFirst + kCount; ++i) {
    const auto quad = load<int32_t>(x + 4 * i);
    sums = kFormat.bias == 128 ? dot_wide_quads(sums, unit.q[i], quad)
                               : dot_quads(sums, unit.q[i], quad);
  }
  return __builtin_convertvector(sums, RowFloats);
}

struct RowSums {
  RowFloats products = {}, minima = {};
};

// Adds the products of a unit with group `group` of one row of x.
template <DType kType>
SUTURE_INLINE void add_unit(const Unit& unit, const QuantisedRow& x, int64_t group, RowSums& sums) {
  constexpr PackedFormat kFormat = packed_format(kType);
  const int8_t* q = x.q + kQuantGroup * group;
  const int32_t* total = x.total + 2 * group;
  const RowFloats scale = splat_rows(x.scale[group]);
  if constexpr (kFormat.is_fine) {
    sums.products = multiply_add(dot_unit<kType, 0, 4>(unit, q, total[0]), unit.scale[0] * scale,
                                 sums.products);
    sums.products = multiply_add(dot_unit<kType, 4, 4>(unit, q, total[1]), unit.scale[1] * scale,
                                 sums.products);
  } else {
    sums.products = multiply_add(dot_unit<kType, 0, 8>(unit, q, total[0] + total[1]),
                                 unit.scale[0] * scale, sums.products);
  }
  if constexpr (kFormat.has_minimum && kFormat.is_fine) {
    for (int half = 0; half < 2; ++half) {
      const float sum = x.scale[group] * static_cast<float>(total[half]);
      sums.minima = multiply_add(unit.minimum[half], splat_rows(sum), sums.minima);
    }
  } else if constexpr (kFormat.has_minimum) {
    sums.minima = multiply_add(unit.minimum[0], splat_rows(x.sum[group]), sums.minima);
  }
}

// kRowLanes rows of a tile with kRows rows of x.
template <DType kType, int kRows>
SUTURE_INLINE void dot_tile(const std::byte* tile, int first, const QuantisedRow* x, int64_t cols,
                            RowFloats* result) {
  constexpr PackedFormat kFormat = packed_format(kType);
  UnitReader<kType> reader(tile, cols, first);
  RowSums sums[kRows];
  const int64_t n_units = cols / kQuantGroup;
  for (int64_t begin = 0; begin < n_units; begin += 8) {
    reader.read_head();
    RowSums block[kRows];  // K types: of codes, before d and dmin
    const int64_t n = n_units - begin < 8 ? n_units - begin : 8;
    for (int64_t i = 0; i < n; ++i) {
      if (first == 0) prefetch_unit<kType>(tile, begin + i);
      Unit unit;
      reader.read(unit);
      for (int r = 0; r < kRows; ++r) {
        add_unit<kType>(unit, x[r], begin + i, kFormat.is_k ? block[r] : sums[r]);
      }
    }
    if constexpr (kFormat.is_k) {
      for (int r = 0; r < kRows; ++r) {
        sums[r].products = multiply_add(reader.d, block[r].products, sums[r].products);
        if constexpr (kFormat.has_minimum) {
          sums[r].minima = multiply_add(reader.dmin, block[r].minima, sums[r].minima);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    result[r] = sums[r].products;
    if constexpr (kFormat.has_minimum) {
      result[r] = kFormat.is_k ? result[r] - sums[r].minima : result[r] + sums[r].minima;
    }
  }
}

// One tile with up to kMaxTileX rows of x; out[r][16] is written whole.
template <DType kType>
void decode_tile(const std::byte* tile, const QuantisedRow* x, int n_rows, int64_t cols,
                 float (*out)[16]) {
  for (int first = 0; first < 16; first += kRowLanes) {
    RowFloats result[kMaxTileX];
    switch (n_rows) {
      case 1: dot_tile<kType, 1>(tile, first, x, cols, result); break;
      case 2: dot_tile<kType, 2>(tile, first, x, cols, result); break;
      case 3: dot_tile<kType, 3>(tile, first, x, cols, result); break;
      default: dot_tile<kType, 4>(tile, first, x, cols, result); break;
    }
    for (int r = 0; r < n_rows; ++r) store(out[r] + first, result[r]);
  }
}

}  // namespace
}  // namespace suture
