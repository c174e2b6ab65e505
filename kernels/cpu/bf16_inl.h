// Rounding to bfloat16, to the nearest even, for targets that have AVX512_BF16.
#pragma once

#include "kernels/cpu/avx512_inl.h"

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

}  // namespace
}  // namespace suture
