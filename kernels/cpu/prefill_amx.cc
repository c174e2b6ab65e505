#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/bf16_inl.h"
#include "kernels/cpu/prefill_amx_inl.h"

namespace suture {
constexpr PrefillKernels kPrefillAmx =
    make_word_kernels(multiply_amx<AmxTiles>, pair_panel<pair_columns>, pair_rows);
}
