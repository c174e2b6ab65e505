// Tiles back to float32, with the values that formats_inl.h gives for rows: same roundings.
#pragma once

#include "kernels/cpu/packed_inl.h"

namespace suture {
namespace {

// Columns 4 i .. 4 i + 3 of kRowLanes rows: values[4][16].
template <DType kType>
SUTURE_INLINE void unpack_quad(const Unit& unit, int i, RowFloats scale, RowFloats minimum,
                               float* values) {
  constexpr PackedFormat kFormat = packed_format(kType);
#pragma GCC unroll 4
  for (int column = 0; column < 4; ++column) {
    const RowInts q = (reinterpret_cast<RowInts>(unit.q[i]) >> (8 * column) & 255) - kFormat.bias;
    RowFloats value = __builtin_convertvector(q, RowFloats) * scale;
    if constexpr (kFormat.has_minimum) value += minimum;
    store(values + 16 * column, value);
  }
}

template <DType kType>
SUTURE_INLINE void unpack_unit(const UnitReader<kType>& reader, const Unit& unit, float* values) {
  constexpr PackedFormat kFormat = packed_format(kType);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const int part = kFormat.is_fine ? i / 4 : 0;
    RowFloats scale = unit.scale[part], minimum = unit.minimum[part];
    if constexpr (kFormat.is_k) {
      scale = reader.d * scale;
      if constexpr (kFormat.has_minimum) minimum = -(reader.dmin * minimum);
    }
    unpack_quad<kType>(unit, i, scale, minimum, values + 64 * i);
  }
}

// As MatmulKernels::unpack_tile.
template <DType kType>
void unpack_tile(const std::byte* tile, int64_t cols, int64_t first, int64_t n, float* panel) {
  constexpr PackedFormat kFormat = packed_format(kType);
  for (int lane = 0; lane < 16; lane += kRowLanes) {
    UnitReader<kType> reader(tile, cols, lane, first);
    for (int64_t i = 0; i < n; ++i) {
      if (i % kFormat.units_per_head() == 0) reader.read_head();
      Unit unit = {};
      reader.read(unit);
      unpack_unit<kType>(reader, unit, panel + 512 * i + lane);
    }
  }
}

}  // namespace
}  // namespace suture
