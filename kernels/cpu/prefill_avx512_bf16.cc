#include "kernels/cpu/bf16_inl.h"

namespace suture {
namespace {

using Wide = F32x16;
inline constexpr int kRowsTogether = 8, kPanelsTogether = 2;
SUTURE_INLINE Wide broadcast(float word) { return _mm512_set1_ps(word); }
SUTURE_INLINE Wide add_products(Wide x, Wide w, Wide sum) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w));
}

}  // namespace
}  // namespace suture

#include "kernels/cpu/prefill_vectors_inl.h"

namespace suture {
constexpr PrefillKernels kPrefillAvx512Bf16 =
    make_word_kernels(multiply_words, pair_panel<pair_columns>, pair_rows);
}
