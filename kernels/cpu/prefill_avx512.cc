#include "kernels/cpu/avx2_inl.h"

namespace suture {
namespace {

using Wide = F32x16;
inline constexpr int kTileRows = 12;
SUTURE_INLINE Wide multiply_add(Wide a, Wide b, Wide c) { return _mm512_fmadd_ps(a, b, c); }
SUTURE_INLINE Wide broadcast(float x) { return _mm512_set1_ps(x); }

}  // namespace
}  // namespace suture

#include "kernels/cpu/prefill_inl.h"

namespace suture {
constexpr PrefillKernels kPrefillAvx512 = make_prefill_kernels();
}
