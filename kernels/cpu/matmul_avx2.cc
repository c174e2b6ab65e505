#include "kernels/cpu/avx2_inl.h"

namespace suture {
namespace {

inline constexpr int kRowLanes = 8;

}  // namespace
}  // namespace suture

#include "kernels/cpu/row_vectors.h"

namespace suture {
namespace {

SUTURE_INLINE RowFloats rows_from_half(const void* halves) {
  return from_half(load<U16x8>(halves));
}

template <bool kSigned>
SUTURE_INLINE RowFloats rows_from_code(const void* bytes) {
  const __m128i codes = _mm_loadl_epi64(static_cast<const __m128i*>(bytes));
  return _mm256_cvtepi32_ps(kSigned ? _mm256_cvtepi8_epi32(codes) : _mm256_cvtepu8_epi32(codes));
}

// Pairs are added in 16 bits, which saturate: w * 127 * 2 fits below 64.
SUTURE_INLINE RowInts dot_quads(RowInts sums, RowBytes w, int32_t quad) {
  const __m256i pairs = _mm256_maddubs_epi16(as_int(w), _mm256_set1_epi32(quad));
  return sums + reinterpret_cast<RowInts>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// Even and odd bytes widened to 16 bits.
SUTURE_INLINE RowInts dot_wide_quads(RowInts sums, RowBytes w, int32_t quad) {
  const __m256i x = _mm256_set1_epi32(quad);
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(as_int(w), _mm256_set1_epi16(255)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(as_int(w), 8), _mm256_srai_epi16(x, 8));
  return sums + reinterpret_cast<RowInts>(_mm256_add_epi32(even, odd));
}

}  // namespace
}  // namespace suture

#include "kernels/cpu/table_inl.h"

namespace suture {
constexpr MatmulKernels kMatmulAvx2 = make_kernels();
}
