#include "kernels/cpu/avx512_inl.h"

namespace suture {
namespace {

using Wide = F32x16;
inline constexpr int kWordElements = 1, kRowsTogether = 8, kPanelsTogether = 2;
SUTURE_INLINE Wide broadcast(float x) { return _mm512_set1_ps(x); }
SUTURE_INLINE Wide add_products(Wide x, Wide w, Wide sum) { return multiply_add(x, w, sum); }
SUTURE_INLINE void pack_group(const float* values, void* words) {
  __builtin_memcpy(words, values, 64);
}

}  // namespace
}  // namespace suture

#include "kernels/cpu/prefill_vectors_inl.h"

namespace suture {
constexpr PrefillKernels kPrefillAvx512 = make_word_kernels(multiply_words);
}
