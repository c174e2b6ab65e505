#include "kernels/cpu/avx512_inl.h"
#include "kernels/cpu/prefill_int8_inl.h"

namespace suture {
constexpr PrefillKernels kPrefillAvx512Vnni = make_int8_kernels();
}
