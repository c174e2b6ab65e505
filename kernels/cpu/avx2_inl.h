// What every target from AVX2 on shares.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/vectors_inl.h"

namespace suture {
namespace {

SUTURE_INLINE __m256i as_int(U8x32 v) { return reinterpret_cast<__m256i>(v); }
SUTURE_INLINE __m256i as_int(I8x32 v) { return reinterpret_cast<__m256i>(v); }

SUTURE_INLINE F32x8 multiply_add(F32x8 a, F32x8 b, F32x8 c) { return _mm256_fmadd_ps(a, b, c); }

SUTURE_INLINE F32x8 widen(const void* eight_int8) {
  const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(eight_int8));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

SUTURE_INLINE F32x8 from_half(U16x8 halves) {
  return _mm256_cvtph_ps(reinterpret_cast<__m128i>(halves));
}

SUTURE_INLINE U8x32 lookup(U8x16 table, U8x32 index) {
  const __m256i twice = _mm256_broadcastsi128_si256(reinterpret_cast<__m128i>(table));
  return reinterpret_cast<U8x32>(_mm256_shuffle_epi8(twice, as_int(index)));
}

}  // namespace
}  // namespace suture
