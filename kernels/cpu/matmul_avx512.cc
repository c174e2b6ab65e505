#include "kernels/cpu/avx2_inl.h"

namespace suture {
namespace {

SUTURE_INLINE I32x8 dot_unsigned(U8x32 w, I8x32 x) { return dot_by_pairs(as_int(w), as_int(x)); }

// |w| <= 128 and |x| <= 127: two products fit 16 bits.
SUTURE_INLINE I32x8 dot_signed(I8x32 w, I8x32 x) {
  return dot_by_pairs(_mm256_abs_epi8(as_int(w)), _mm256_sign_epi8(as_int(x), as_int(w)));
}

}  // namespace
}  // namespace suture

#include "kernels/cpu/table_inl.h"

namespace suture {
constexpr MatmulKernels kMatmulAvx512 = make_kernels();
}
