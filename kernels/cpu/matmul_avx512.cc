#include "kernels/cpu/avx512_inl.h"

namespace suture {
namespace {

// Pairs are added in 16 bits, which saturate: w * 127 * 2 fits below 64.
SUTURE_INLINE RowInts dot_quads(RowInts sums, RowBytes w, int32_t quad) {
  const __m512i pairs = _mm512_maddubs_epi16(as_int(w), _mm512_set1_epi32(quad));
  return sums + reinterpret_cast<RowInts>(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

// Even and odd bytes widened to 16 bits.
SUTURE_INLINE RowInts dot_wide_quads(RowInts sums, RowBytes w, int32_t quad) {
  const __m512i x = _mm512_set1_epi32(quad);
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(as_int(w), _mm512_set1_epi16(255)),
                                         _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(as_int(w), 8), _mm512_srai_epi16(x, 8));
  return sums + reinterpret_cast<RowInts>(_mm512_add_epi32(even, odd));
}

}  // namespace
}  // namespace suture

#include "kernels/cpu/table_inl.h"

namespace suture {
constexpr MatmulKernels kMatmulAvx512 = make_kernels();
}
