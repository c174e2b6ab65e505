#include "kernels/cpu/avx2_inl.h"

namespace suture {
namespace {

using Wide = F32x8;
inline constexpr int kTileRows = 6;
SUTURE_INLINE Wide broadcast(float x) { return _mm256_set1_ps(x); }

}  // namespace
}  // namespace suture

#include "kernels/cpu/prefill_inl.h"

namespace suture {
constexpr PrefillKernels kPrefillAvx2 = make_prefill_kernels();
}
