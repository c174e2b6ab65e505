// What every target from AVX-512 on shares.
#pragma once

// g++ 12 takes the undefined lanes that its own intrinsics pass along for an error (PR 105593).
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "kernels/cpu/avx2_inl.h"

namespace suture {
namespace {

inline constexpr int kRowLanes = 16;

}  // namespace
}  // namespace suture

#include "kernels/cpu/row_vectors.h"

namespace suture {
namespace {

SUTURE_INLINE __m512i as_int(RowBytes v) { return reinterpret_cast<__m512i>(v); }
SUTURE_INLINE __m512i as_int(RowInts v) { return reinterpret_cast<__m512i>(v); }

SUTURE_INLINE RowFloats multiply_add(RowFloats a, RowFloats b, RowFloats c) {
  return _mm512_fmadd_ps(a, b, c);
}

SUTURE_INLINE RowFloats rows_from_half(const void* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(halves)));
}

template <bool kSigned>
SUTURE_INLINE RowFloats rows_from_code(const void* bytes) {
  const __m128i codes = _mm_loadu_si128(static_cast<const __m128i*>(bytes));
  return _mm512_cvtepi32_ps(kSigned ? _mm512_cvtepi8_epi32(codes) : _mm512_cvtepu8_epi32(codes));
}

SUTURE_INLINE RowBytes lookup(U8x16 table, RowBytes index) {
  const __m512i copies = _mm512_broadcast_i32x4(reinterpret_cast<__m128i>(table));
  return reinterpret_cast<RowBytes>(_mm512_shuffle_epi8(copies, as_int(index)));
}

}  // namespace
}  // namespace suture
