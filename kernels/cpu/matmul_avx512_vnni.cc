#include "kernels/cpu/avx512_inl.h"

namespace suture {
namespace {

// Dot products stay at 256 bits: they keep up with memory, and no frequency licence is spent.
SUTURE_INLINE I32x8 dot_unsigned(U8x32 w, I8x32 x) {
  return reinterpret_cast<I32x8>(_mm256_dpbusd_epi32(_mm256_setzero_si256(), as_int(w), as_int(x)));
}

SUTURE_INLINE I32x8 dot_signed(I8x32 w, I8x32 x) {
  return reinterpret_cast<I32x8>(_mm256_dpbusd_epi32(
      _mm256_setzero_si256(), _mm256_abs_epi8(as_int(w)), _mm256_sign_epi8(as_int(x), as_int(w))));
}

SUTURE_INLINE RowInts dot_quads(RowInts sums, RowBytes w, int32_t quad) {
  return reinterpret_cast<RowInts>(
      _mm512_dpbusd_epi32(as_int(sums), as_int(w), _mm512_set1_epi32(quad)));
}

SUTURE_INLINE RowInts dot_wide_quads(RowInts sums, RowBytes w, int32_t quad) {
  return dot_quads(sums, w, quad);
}

}  // namespace
}  // namespace suture

#include "kernels/cpu/table_inl.h"

namespace suture {
constexpr MatmulKernels kMatmulAvx512Vnni = make_kernels();
}
