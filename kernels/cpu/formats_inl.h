// How each GGUF weight type unpacks: w[i] = q[i] * scale - minimum, element order kept.
// One unpacking serves both the integer dot product and the conversion to float32. Names are ggml's
// without the underscore: Q40 is q4_0, Q4K is q4_K.
//
// The target's .cc defines before including this file:
//   F32x8 widen(const void* eight_int8)      eight signed bytes as floats
//   F32x8 from_half(U16x8 halves)            IEEE half floats as floats
//   U8x32 lookup(U8x16 table, U8x32 index)   table[index], indices below 16
#pragma once

#include "kernels/cpu/vectors_inl.h"

namespace suture {
namespace {

inline constexpr int kGroups = 8;  // groups of 32 weights in a chunk

struct Chunk {
  U8x32 q[kGroups];             // signed bytes where Format::kSigned, else 0 .. 31
  alignas(32) float scale[16];  // one per 16 weights where Format::kFine, else [8], one per 32
  F32x8 minimum[2];             // where Format::kHasMinimum, of as many weights as a scale
};

// Blocks of 32 weights: a half scale, for some types a half minimum, then bits. `n` blocks.
template <int kBlockBytes>
SUTURE_INLINE F32x8 block_halves(const std::byte* blocks, int n) {
  U16x8 halves = {};
  for (int g = 0; g < n; ++g) halves[g] = load<uint16_t>(blocks + g * kBlockBytes);
  return from_half(halves);
}

SUTURE_INLINE float half_at(const std::byte* bytes) {
  return from_half(U16x8{load<uint16_t>(bytes)})[0];
}

// 16 bytes hold elements 0 .. 15 in their low halves and 16 .. 31 in their high halves.
SUTURE_INLINE U8x32 nibbles(const std::byte* bytes) {
  const U8x16 packed = load<U8x16>(bytes);
  return concat(packed, packed >> 4) & 15;
}

struct Q40 {
  static constexpr bool kSigned = true, kFine = false, kHasMinimum = false;
  static constexpr int64_t kBlockBytes = 18, kChunkBytes = 8 * kBlockBytes;

  static SUTURE_INLINE void unpack(const std::byte* blocks, int n, Chunk& chunk) {
    store(chunk.scale, block_halves<kBlockBytes>(blocks, n));
    for (int g = 0; g < n; ++g) chunk.q[g] = nibbles(blocks + g * kBlockBytes + 2) - 8;
  }
};

struct Q41 {
  static constexpr bool kSigned = false, kFine = false, kHasMinimum = true;
  static constexpr int64_t kBlockBytes = 20, kChunkBytes = 8 * kBlockBytes;

  static SUTURE_INLINE void unpack(const std::byte* blocks, int n, Chunk& chunk) {
    store(chunk.scale, block_halves<kBlockBytes>(blocks, n));
    chunk.minimum[0] = -block_halves<kBlockBytes>(blocks + 2, n);  // stored as what is added
    for (int g = 0; g < n; ++g) chunk.q[g] = nibbles(blocks + g * kBlockBytes + 4);
  }
};

// Bit i of four bytes as 0 or 16 in byte i.
SUTURE_INLINE U8x32 fifth_bits(const std::byte* bytes) {
  const U8x32 copies = reinterpret_cast<U8x32>(U32x8{} + load<uint32_t>(bytes));
  const U8x32 spread =
      __builtin_shufflevector(copies, copies, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 18,
                              18, 18, 18, 18, 18, 18, 18, 19, 19, 19, 19, 19, 19, 19, 19);
  const U8x32 own = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
                     1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  return reinterpret_cast<U8x32>((spread & own) == own) & 16;
}

struct Q50 {
  static constexpr bool kSigned = true, kFine = false, kHasMinimum = false;
  static constexpr int64_t kBlockBytes = 22, kChunkBytes = 8 * kBlockBytes;

  static SUTURE_INLINE void unpack(const std::byte* blocks, int n, Chunk& chunk) {
    store(chunk.scale, block_halves<kBlockBytes>(blocks, n));
    for (int g = 0; g < n; ++g) {
      const std::byte* block = blocks + g * kBlockBytes;
      chunk.q[g] = (nibbles(block + 6) | fifth_bits(block + 2)) - 16;
    }
  }
};

struct Q51 {
  static constexpr bool kSigned = false, kFine = false, kHasMinimum = true;
  static constexpr int64_t kBlockBytes = 24, kChunkBytes = 8 * kBlockBytes;

  static SUTURE_INLINE void unpack(const std::byte* blocks, int n, Chunk& chunk) {
    store(chunk.scale, block_halves<kBlockBytes>(blocks, n));
    chunk.minimum[0] = -block_halves<kBlockBytes>(blocks + 2, n);  // stored as what is added
    for (int g = 0; g < n; ++g) {
      const std::byte* block = blocks + g * kBlockBytes;
      chunk.q[g] = nibbles(block + 8) | fifth_bits(block + 4);
    }
  }
};

struct Iq4Nl {
  static constexpr bool kSigned = true, kFine = false, kHasMinimum = false;
  static constexpr int64_t kBlockBytes = 18, kChunkBytes = 8 * kBlockBytes;

  static SUTURE_INLINE void unpack(const std::byte* blocks, int n, Chunk& chunk) {
    using I8x16 = int8_t __attribute__((vector_size(16)));
    const I8x16 levels = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    store(chunk.scale, block_halves<kBlockBytes>(blocks, n));
    for (int g = 0; g < n; ++g) {
      chunk.q[g] = lookup(reinterpret_cast<U8x16>(levels), nibbles(blocks + g * kBlockBytes + 2));
    }
  }
};

struct Q80 {
  static constexpr bool kSigned = true, kFine = false, kHasMinimum = false;
  static constexpr int64_t kBlockBytes = 34, kChunkBytes = 8 * kBlockBytes;

  static SUTURE_INLINE void unpack(const std::byte* blocks, int n, Chunk& chunk) {
    store(chunk.scale, block_halves<kBlockBytes>(blocks, n));
    for (int g = 0; g < n; ++g) chunk.q[g] = load<U8x32>(blocks + g * kBlockBytes + 2);
  }
};

// Groups 4 * half to 4 * half + 3 of a q2_k or q3_k block: bit pairs 0 to 3 of the same 32 bytes.
SUTURE_INLINE void bit_pairs(const std::byte* bytes, U8x32* q) {
  const U8x32 packed = load<U8x32>(bytes);
  q[0] = packed & 3;
  q[1] = shift_right<2>(packed) & 3;
  q[2] = shift_right<4>(packed) & 3;
  q[3] = shift_right<6>(packed) & 3;
}

struct Q2K {
  static constexpr bool kSigned = false, kFine = true, kHasMinimum = true;
  static constexpr int64_t kChunkBytes = 84;

  // 16 bytes with a scale in the low and a minimum in the high half; bit pairs [64]; halves d,
  // dmin.
  static SUTURE_INLINE void unpack(const std::byte* block, int, Chunk& chunk) {
    const U8x16 packed = load<U8x16>(block);
    const U8x16 scales = packed & 15, minima = packed >> 4;
    std::byte bytes[2][16];
    store(bytes[0], scales);
    store(bytes[1], minima);
    const F32x8 d = splat(half_at(block + 80)), dmin = splat(half_at(block + 82));
    for (int half = 0; half < 2; ++half) {
      store(chunk.scale + 8 * half, d * widen(bytes[0] + 8 * half));
      chunk.minimum[half] = dmin * widen(bytes[1] + 8 * half);
      bit_pairs(block + 16 + 32 * half, chunk.q + 4 * half);
    }
  }
};

struct Q3KCodes {
  uint32_t scales[4];  // as 16 bytes, each 32 more than the scale
};

SUTURE_INLINE Q3KCodes q3k_codes(const std::byte* block) {
  const auto a = load<uint32_t>(block + 96), b = load<uint32_t>(block + 100);
  const auto c = load<uint32_t>(block + 104);
  return {{(a & 0x0f0f0f0f) | ((c << 4) & 0x30303030), (b & 0x0f0f0f0f) | ((c << 2) & 0x30303030),
           ((a >> 4) & 0x0f0f0f0f) | (c & 0x30303030),
           ((b >> 4) & 0x0f0f0f0f) | ((c >> 2) & 0x30303030)}};
}

struct Q3K {
  static constexpr bool kSigned = true, kFine = true, kHasMinimum = false;
  static constexpr int64_t kChunkBytes = 110;

  // Third bits [32], one bit of each byte per group; bit pairs [64]; 16 six-bit scales: low halves
  // in the nibbles of 8 bytes, high pairs in 4 bytes; half d.
  static SUTURE_INLINE void unpack(const std::byte* block, int, Chunk& chunk) {
    const U8x32 high = load<U8x32>(block);
    bit_pairs(block + 32, chunk.q);
    bit_pairs(block + 64, chunk.q + 4);
    for (int g = 0; g < kGroups; ++g) {
      chunk.q[g] = (chunk.q[g] | ((high >> static_cast<uint8_t>(g) & 1) << 2)) - 4;
    }
    const F32x8 d = splat(half_at(block + 108));
    const Q3KCodes codes = q3k_codes(block);
    store(chunk.scale, d * (widen(codes.scales) - 32));
    store(chunk.scale + 8, d * (widen(codes.scales + 2) - 32));
  }
};

// Head of a q4_k or q5_k block: half d, half dmin, then eight 6-bit scales and eight 6-bit minima
// in 12 bytes: the first four of each in the low six bits of bytes 0-3 and 4-7, the last four
// split between the nibbles of bytes 8-11 and the two spare bits of bytes 0-7.
struct KCodes {
  uint32_t scales[2];  // as 8 bytes
  uint32_t minima[2];
};

SUTURE_INLINE KCodes k_codes(const std::byte* block) {
  const auto a = load<uint32_t>(block + 4), b = load<uint32_t>(block + 8);
  const auto c = load<uint32_t>(block + 12);
  return {{a & 0x3f3f3f3f, (c & 0x0f0f0f0f) | ((a >> 2) & 0x30303030)},
          {b & 0x3f3f3f3f, ((c >> 4) & 0x0f0f0f0f) | ((b >> 2) & 0x30303030)}};
}

SUTURE_INLINE void k_scales(const std::byte* block, Chunk& chunk) {
  const KCodes codes = k_codes(block);
  store(chunk.scale, splat(half_at(block)) * widen(codes.scales));
  chunk.minimum[0] = splat(half_at(block + 2)) * widen(codes.minima);
}

struct Q4K {
  static constexpr bool kSigned = false, kFine = false, kHasMinimum = true;
  static constexpr int64_t kChunkBytes = 144;

  static SUTURE_INLINE void unpack(const std::byte* block, int, Chunk& chunk) {
    k_scales(block, chunk);
    for (int pair = 0; pair < 4; ++pair) {
      const U8x32 packed = load<U8x32>(block + 16 + 32 * pair);
      chunk.q[2 * pair] = packed & 15;
      chunk.q[2 * pair + 1] = shift_right<4>(packed) & 15;
    }
  }
};

struct Q5K {
  static constexpr bool kSigned = false, kFine = false, kHasMinimum = true;
  static constexpr int64_t kChunkBytes = 176;

  template <int kPair>
  static SUTURE_INLINE void unpack_pair(const std::byte* block, U8x32 high, Chunk& chunk) {
    const U8x32 packed = load<U8x32>(block + 48 + 32 * kPair);
    // Bit 2 * pair of byte i is the fifth bit of element i of the pair's first group.
    const U8x32 bits = shift_right<2 * kPair>(high);
    chunk.q[2 * kPair] = (packed & 15) | (shift_left<4>(bits) & 16);
    chunk.q[2 * kPair + 1] = (shift_right<4>(packed) & 15) | (shift_left<3>(bits) & 16);
  }

  static SUTURE_INLINE void unpack(const std::byte* block, int, Chunk& chunk) {
    k_scales(block, chunk);
    const U8x32 high = load<U8x32>(block + 16);
    unpack_pair<0>(block, high, chunk);
    unpack_pair<1>(block, high, chunk);
    unpack_pair<2>(block, high, chunk);
    unpack_pair<3>(block, high, chunk);
  }
};

struct Q6K {
  static constexpr bool kSigned = true, kFine = true, kHasMinimum = false;
  static constexpr int64_t kChunkBytes = 210;

  // 128 low nibbles [64], 128 high bit pairs [32], twice; 16 int8 scales; half d.
  static SUTURE_INLINE void unpack(const std::byte* block, int, Chunk& chunk) {
    for (int half = 0; half < 2; ++half) {
      const U8x32 first = load<U8x32>(block + 64 * half);
      const U8x32 second = load<U8x32>(block + 64 * half + 32);
      const U8x32 high = load<U8x32>(block + 128 + 32 * half);
      U8x32* q = chunk.q + 4 * half;
      q[0] = ((first & 15) | (shift_left<4>(high) & 48)) - 32;
      q[1] = ((second & 15) | (shift_left<2>(high) & 48)) - 32;
      q[2] = ((shift_right<4>(first) & 15) | (high & 48)) - 32;
      q[3] = ((shift_right<4>(second) & 15) | (shift_right<2>(high) & 48)) - 32;
    }
    const F32x8 d = splat(half_at(block + 208));
    store(chunk.scale, d * widen(block + 192));
    store(chunk.scale + 8, d * widen(block + 200));
  }
};

template <typename Format>
SUTURE_INLINE void expand(const Chunk& chunk, int n_groups, float* target) {
  for (int g = 0; g < n_groups; ++g) {
    alignas(32) int8_t q[32];
    store(q, chunk.q[g]);
    for (int part = 0; part < 4; ++part) {
      const int at = Format::kFine ? 2 * g + part / 2 : g;
      const F32x8 scale = splat(chunk.scale[at]);
      F32x8 value = widen(q + 8 * part) * scale;
      if constexpr (Format::kHasMinimum) value -= splat(chunk.minimum[at / 8][at % 8]);
      store(target + 32 * g + 8 * part, value);
    }
  }
}

template <typename Format>
void dequantise_blocks(const std::byte* source, int64_t elements, float* target) {
  Chunk chunk;
  for (; elements >= kQuantChunk; elements -= kQuantChunk) {
    Format::unpack(source, kGroups, chunk);
    expand<Format>(chunk, kGroups, target);
    source += Format::kChunkBytes;
    target += kQuantChunk;
  }
  const int rest = static_cast<int>(elements / kQuantGroup);
  if (rest > 0) {
    Format::unpack(source, rest, chunk);
    expand<Format>(chunk, rest, target);
  }
}

// Plain types: eight elements at a time; `load_part` serves the last few.
struct F32 {
  static constexpr int64_t kBytes = 4;
  static SUTURE_INLINE F32x8 load8(const void* source) { return load<F32x8>(source); }
};

struct F16 {
  static constexpr int64_t kBytes = 2;
  static SUTURE_INLINE F32x8 load8(const void* source) { return from_half(load<U16x8>(source)); }
};

struct Bf16 {
  static constexpr int64_t kBytes = 2;
  static SUTURE_INLINE F32x8 load8(const void* source) {
    return reinterpret_cast<F32x8>(__builtin_convertvector(load<U16x8>(source), U32x8) << 16);
  }
};

// Eight elements of which only the first n exist; the rest are 0.
template <typename Format>
SUTURE_INLINE F32x8 load_part(const std::byte* source, int64_t n) {
  std::byte padded[8 * Format::kBytes] = {};
  __builtin_memcpy(padded, source, static_cast<size_t>(n * Format::kBytes));
  return Format::load8(padded);
}

template <typename Format>
void widen_plain(const std::byte* source, int64_t elements, float* target) {
  int64_t i = 0;
  for (; i + 8 <= elements; i += 8) store(target + i, Format::load8(source + i * Format::kBytes));
  if (i < elements) {
    const F32x8 last = load_part<Format>(source + i * Format::kBytes, elements - i);
    __builtin_memcpy(target + i, &last, static_cast<size_t>(elements - i) * sizeof(float));
  }
}

}  // namespace
}  // namespace suture
