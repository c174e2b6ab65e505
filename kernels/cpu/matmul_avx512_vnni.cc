#include "kernels/cpu/avx512_inl.h"

namespace suture {
namespace {

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
