// Reading tiles (kernels/cpu/packed_format.h): the bytes and scales of one unit at a time.
//
// The target's .cc defines before including this file:
//   kRowLanes                               output rows of a vector: 8, or 16 where it has 512 bits
//   RowFloats multiply_add(RowFloats a, RowFloats b, RowFloats c)   a * b + c
//   RowFloats rows_from_half(const void* halves)
//   template <bool kSigned> RowFloats rows_from_code(const void* bytes)
//   RowBytes lookup(U8x16 table, RowBytes index)                   table[index], indices below 16
//   RowInts dot_quads(RowInts sums, RowBytes w, int32_t quad)      w below 64
//   RowInts dot_wide_quads(RowInts sums, RowBytes w, int32_t quad) any w
// The last two add to each lane the four products of its bytes with those of `quad`, which are
// signed.
#pragma once

#include "kernels/cpu/packed_format.h"
#include "kernels/cpu/row_vectors.h"

namespace suture {
namespace {

template <int kBits>
SUTURE_INLINE RowBytes shift(RowBytes v) {  // to the left; whole 16-bit lanes, callers mask
  if constexpr (kBits >= 0) {
    return reinterpret_cast<RowBytes>(reinterpret_cast<RowWords>(v) << kBits);
  } else {
    return reinterpret_cast<RowBytes>(reinterpret_cast<RowWords>(v) >> -kBits);
  }
}

// Puts `kBits` bits of each weight of a unit into the quads w[8], from bit kTo on.
template <int kBits, int kTo>
SUTURE_INLINE void add_bits(const std::byte* bits, RowBytes* w) {
  if constexpr (kBits == 8) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) w[i] = load<RowBytes>(bits + 64 * i);
  } else if constexpr (kBits == 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto both = load<RowBytes>(bits + 64 * i);
      w[i] = both & 15;
      w[i + 4] = shift<-4>(both) & 15;
    }
  } else if constexpr (kBits == 2) {
    constexpr uint8_t kMask = 3 << kTo;
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const auto four = load<RowBytes>(bits + 64 * j);
      w[4 * j] |= shift<kTo>(four) & kMask;
      w[4 * j + 1] |= shift<kTo - 2>(four) & kMask;
      w[4 * j + 2] |= shift<kTo - 4>(four) & kMask;
      w[4 * j + 3] |= shift<kTo - 6>(four) & kMask;
    }
  } else if constexpr (kBits == 1) {
    constexpr uint8_t kMask = 1 << kTo;
    const auto eight = load<RowBytes>(bits);
    w[0] |= shift<kTo>(eight) & kMask;
    w[1] |= shift<kTo - 1>(eight) & kMask;
    w[2] |= shift<kTo - 2>(eight) & kMask;
    w[3] |= shift<kTo - 3>(eight) & kMask;
    w[4] |= shift<kTo - 4>(eight) & kMask;
    w[5] |= shift<kTo - 5>(eight) & kMask;
    w[6] |= shift<kTo - 6>(eight) & kMask;
    w[7] |= shift<kTo - 7>(eight) & kMask;
  }
}

// What a unit holds for kRowLanes of its rows. w = scale * (q - bias) + minimum: minima have their
// sign.
struct Unit {
  RowBytes q[8];                   // quads: columns 4 i .. 4 i + 3
  RowFloats scale[2], minimum[2];  // of the unit's halves where the type is fine, else [0] of all
};

// Walks through the units of a tile for the kRowLanes rows from lane `first` on.
template <DType kType>
class UnitReader {
 public:
  static constexpr PackedFormat kFormat = packed_format(kType);

  // From unit `unit` on, a multiple of kFormat.units_per_head().
  SUTURE_INLINE UnitReader(const std::byte* tile, int64_t cols, int first, int64_t unit = 0)
      : next_(tile + unit / kFormat.units_per_head() * kFormat.chunk_bytes(8)),
        left_(cols / 32 - unit),
        first_(first) {}

  // To be called before every unit whose index is a multiple of kFormat.units_per_head().
  SUTURE_INLINE void read_head() {
    const int64_t units = left_ < 8 ? left_ : 8;
    scales_ = next_ + kFormat.head_bytes();
    bits_ = next_ + kFormat.chunk_scale_bytes(units) + 4 * first_;
    if constexpr (kFormat.is_k) {
      d = rows_from_half(next_ + 2 * first_);
      if constexpr (kFormat.has_minimum) dmin = rows_from_half(next_ + 32 + 2 * first_);
    }
    next_ += kFormat.chunk_bytes(units);
    left_ -= units;
  }

  // Codes of K types as they are, without d and dmin; the scales of the others.
  SUTURE_INLINE void read(Unit& unit) {
#pragma GCC unroll 8
    for (RowBytes& q : unit.q) q = RowBytes{};
    add_bits<kFormat.low_bits, 0>(bits_, unit.q);
    if constexpr (kFormat.is_table) {
      U8x16 levels;
      for (int i = 0; i < 16; ++i) levels[i] = static_cast<uint8_t>(kIq4Levels[i] + kIq4Bias);
#pragma GCC unroll 8
      for (RowBytes& q : unit.q) q = lookup(levels, q);
    }
    add_bits<kFormat.high_bits, kFormat.low_bits>(bits_ + 64 * kFormat.low_bits, unit.q);
    bits_ += kFormat.unit_bit_bytes();
    read_scales(unit);
  }

  RowFloats d = {}, dmin = {};  // K types: of the units since read_head()

 private:
  SUTURE_INLINE void read_scales(Unit& unit) {
    constexpr int kScales = kFormat.scales();
#pragma GCC unroll 2
    for (int i = 0; i < kScales; ++i) {
      if constexpr (kFormat.is_k) {
        unit.scale[i] = rows_from_code<kFormat.signed_scales>(scales_ + 16 * i + first_);
        if constexpr (kFormat.has_minimum) {
          unit.minimum[i] = rows_from_code<false>(scales_ + 16 * (kScales + i) + first_);
        }
      } else {
        unit.scale[i] = rows_from_half(scales_ + 2 * first_);
        if constexpr (kFormat.has_minimum) {
          unit.minimum[i] = rows_from_half(scales_ + 32 + 2 * first_);
        }
      }
    }
    scales_ += kFormat.unit_scale_bytes();
  }

  const std::byte* next_;  // the next chunk
  int64_t left_;           // units from there on
  const std::byte* scales_ = nullptr;
  const std::byte* bits_ = nullptr;
  int first_;  // lane of the tile
};

}  // namespace
}  // namespace suture
