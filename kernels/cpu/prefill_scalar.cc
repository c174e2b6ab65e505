// Portable: whatever the compiler makes of it on the baseline target.
#include "kernels/cpu/vectors_inl.h"

namespace suture {
namespace {

using Wide = F32x8;
inline constexpr int kTileRows = 2;
SUTURE_INLINE Wide broadcast(float x) { return splat(x); }
SUTURE_INLINE F32x8 multiply_add(F32x8 a, F32x8 b, F32x8 c) { return a * b + c; }

}  // namespace
}  // namespace suture

#include "kernels/cpu/prefill_inl.h"

namespace suture {
constexpr PrefillKernels kPrefillScalar = make_prefill_kernels();
}
