// Pairs of bfloat16 values, for targets that have AVX512_BF16: rounded from float32 to the nearest
// even, or as they are.
#pragma once

#include "kernels/cpu/avx512_inl.h"
#include "kernels/cpu/prefill_kernels.h"

namespace suture {
namespace {

inline constexpr int kWordElements = 2;

SUTURE_INLINE void pack_group(const float* values, void* words) {
  const __m512bh rounded =
      _mm512_cvtne2ps_pbh(_mm512_loadu_ps(values + 16), _mm512_loadu_ps(values));
  _mm512_storeu_si512(words, reinterpret_cast<__m512i>(rounded));
}

SUTURE_INLINE void pair_columns(const float* columns, void* words) {
  const __m512bh rounded =
      _mm512_cvtne2ps_pbh(_mm512_loadu_ps(columns + 16), _mm512_loadu_ps(columns));
  using U16x32 = uint16_t __attribute__((vector_size(64)));
  const U16x32 order = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  _mm512_storeu_si512(words, _mm512_permutexvar_epi16(reinterpret_cast<__m512i>(order),
                                                      reinterpret_cast<__m512i>(rounded)));
}

// words[i][j] becomes words[j][i].
SUTURE_INLINE void transpose_words(__m512i (&words)[16]) {
  __m512i pairs[16];  // of rows; then quads of rows, each 128 bits one column
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(words[i], words[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(words[i], words[i + 1]);
  }
  __m512i quads[16];  // [rows / 4][column % 4], the four columns of each in 128 bits
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    quads[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    quads[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    quads[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    quads[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    constexpr int kEven = 0x88, kOdd = 0xdd;
    const __m512i even = _mm512_shuffle_i32x4(quads[j], quads[j + 4], kEven);
    const __m512i odd = _mm512_shuffle_i32x4(quads[j], quads[j + 4], kOdd);
    const __m512i later_even = _mm512_shuffle_i32x4(quads[j + 8], quads[j + 12], kEven);
    const __m512i later_odd = _mm512_shuffle_i32x4(quads[j + 8], quads[j + 12], kOdd);
    words[j] = _mm512_shuffle_i32x4(even, later_even, kEven);
    words[j + 4] = _mm512_shuffle_i32x4(odd, later_odd, kEven);
    words[j + 8] = _mm512_shuffle_i32x4(even, later_even, kOdd);
    words[j + 12] = _mm512_shuffle_i32x4(odd, later_odd, kOdd);
  }
}

// Weights of bfloat16 are pairs as they lie.
inline void pair_rows(const PlainFeatures& rows, std::byte* panel) {
  for (int64_t k = 0; k < rows.columns; k += 32, panel += 1024) {
    const int64_t n = rows.n_columns - k;
    const __mmask32 there = n >= 32 ? ~0u : n > 0 ? (1u << n) - 1 : 0;
    __m512i words[16];
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) {
      const std::byte* row = rows.first + i * rows.row_bytes + k * 2;
      words[i] = _mm512_maskz_loadu_epi16(i < rows.n_features ? there : 0, row);
    }
    transpose_words(words);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_storeu_si512(panel + i * 64, words[i]);
  }
}

}  // namespace
}  // namespace suture
