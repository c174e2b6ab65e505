// From rows as they lie in a file to tiles (kernels/cpu/packed_format.h).
#pragma once

#include "kernels/cpu/formats_inl.h"
#include "kernels/cpu/packed_format.h"

namespace suture {
namespace {

// Four bytes of one row in each vector of a tile: row r's lane of vector j.
SUTURE_INLINE void put_lane(std::byte* vectors, int j, int row, uint32_t lane) {
  store(vectors + 64 * j + 4 * row, lane);
}

// `bits` bits of each weight, from bit `from` on, in the form that packed_format.h says.
template <int kBits>
SUTURE_INLINE void put_bits(const uint32_t* quads, int from, int row, std::byte* vectors) {
  if constexpr (kBits == 8) {
    for (int i = 0; i < 8; ++i) put_lane(vectors, i, row, quads[i]);
  } else if constexpr (kBits == 4) {
    for (int i = 0; i < 4; ++i) {
      put_lane(vectors, i, row, (quads[i] & 0x0f0f0f0f) | (quads[i + 4] & 0x0f0f0f0f) << 4);
    }
  } else if constexpr (kBits > 0) {
    constexpr int kQuads = 8 / kBits;  // in one vector
    constexpr uint32_t kMask = kBits == 1 ? 0x01010101 : 0x03030303;
    for (int j = 0; j < kBits; ++j) {
      uint32_t lane = 0;
      for (int i = 0; i < kQuads; ++i) {
        lane |= (quads[kQuads * j + i] >> from & kMask) << (kBits * i);
      }
      put_lane(vectors, j, row, lane);
    }
  }
}

// Scales of a legacy type: 16 halves, then 16 minima.
template <bool kHasMinimum>
SUTURE_INLINE void put_halves(const std::byte* block, int row, std::byte* scales) {
  store(scales + 2 * row, load<uint16_t>(block));
  if constexpr (kHasMinimum) store(scales + 32 + 2 * row, load<uint16_t>(block + 2));
}

// The halves and codes of a block of 256 weights.
struct BlockCodes {
  uint16_t d, dmin;
  uint8_t scales[16], minima[16];  // one for each 16 or 32 weights
};

template <DType kType>
SUTURE_INLINE BlockCodes block_codes(const std::byte* block) {
  BlockCodes codes = {};
  if constexpr (kType == DType::kQ4_K || kType == DType::kQ5_K) {
    codes.d = load<uint16_t>(block);
    codes.dmin = load<uint16_t>(block + 2);
    const KCodes packed = k_codes(block);
    __builtin_memcpy(codes.scales, packed.scales, 8);
    __builtin_memcpy(codes.minima, packed.minima, 8);
  } else if constexpr (kType == DType::kQ6_K) {
    codes.d = load<uint16_t>(block + 208);
    __builtin_memcpy(codes.scales, block + 192, 16);
  } else if constexpr (kType == DType::kQ3_K) {
    codes.d = load<uint16_t>(block + 108);
    const Q3KCodes packed = q3k_codes(block);
    __builtin_memcpy(codes.scales, packed.scales, 16);
    for (uint8_t& scale : codes.scales) scale = static_cast<uint8_t>(scale - 32);
  } else if constexpr (kType == DType::kQ2_K) {
    codes.d = load<uint16_t>(block + 80);
    codes.dmin = load<uint16_t>(block + 82);
    for (int i = 0; i < 16; ++i) {
      const auto both = static_cast<uint8_t>(block[i]);
      codes.scales[i] = both & 15;
      codes.minima[i] = both >> 4;
    }
  }
  return codes;
}

// Head and codes of the 8 units of a block; `scales` is where they begin.
template <DType kType>
SUTURE_INLINE void put_codes(const std::byte* block, int row, std::byte* scales) {
  constexpr PackedFormat kFormat = packed_format(kType);
  const BlockCodes codes = block_codes<kType>(block);
  store(scales + 2 * row, codes.d);
  if constexpr (kFormat.has_minimum) store(scales + 32 + 2 * row, codes.dmin);
  scales += kFormat.head_bytes() + row;
  for (int unit = 0; unit < 8; ++unit, scales += kFormat.unit_scale_bytes()) {
    for (int i = 0; i < kFormat.scales(); ++i) {
      store(scales + 16 * i, codes.scales[kFormat.scales() * unit + i]);
      if constexpr (kFormat.has_minimum) {
        store(scales + 16 * (kFormat.scales() + i), codes.minima[kFormat.scales() * unit + i]);
      }
    }
  }
}

// One row of a tile. `Format` unpacks to signed weights or, for tables, to an index less 8.
template <typename Format, DType kType>
SUTURE_INLINE void pack_row(const std::byte* source, int64_t cols, int row, std::byte* tile) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr uint8_t kBias = kFormat.is_table ? 8 : kFormat.bias;
  Chunk chunk;
  for (int64_t k = 0; k < cols; k += kQuantChunk, source += Format::kChunkBytes) {
    const int n = static_cast<int>(cols - k < kQuantChunk ? (cols - k) / kQuantGroup : kGroups);
    Format::unpack(source, n, chunk);
    std::byte* scales = tile;
    std::byte* bits = tile + kFormat.chunk_scale_bytes(n);
    tile += kFormat.chunk_bytes(n);
    if constexpr (kFormat.is_k) put_codes<kType>(source, row, scales);
    for (int g = 0; g < n; ++g, bits += kFormat.unit_bit_bytes()) {
      if constexpr (!kFormat.is_k) {
        put_halves<kFormat.has_minimum>(source + g * Format::kBlockBytes, row, scales);
        scales += kFormat.unit_scale_bytes();
      }
      const auto quads = reinterpret_cast<U32x8>(chunk.q[g] + kBias);
      uint32_t lanes[8];
      store(lanes, quads);
      put_bits<kFormat.low_bits>(lanes, 0, row, bits);
      put_bits<kFormat.high_bits>(lanes, kFormat.low_bits, row, bits + 64 * kFormat.low_bits);
    }
  }
}

// Tile of rows source .. source + n_rows * row_bytes, n_rows up to 16.
template <typename Format, DType kType>
void pack_tile(const std::byte* source, int64_t row_bytes, int64_t n_rows, int64_t cols,
               std::byte* tile) {
  if (n_rows < 16) {
    __builtin_memset(tile, 0, static_cast<size_t>(packed_format(kType).tile_bytes(cols)));
  }
  for (int row = 0; row < n_rows; ++row) {
    pack_row<Format, kType>(source + row * row_bytes, cols, row, tile);
  }
}

}  // namespace
}  // namespace suture
