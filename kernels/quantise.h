// Float32 values in 8 bits, as a GGUF file stores them (ggml's Q8_0). Host memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace suture {

// The reverse of dequantise() (kernels/matmul.h) for kQ8_0. Of each 32 values the one farthest from
// zero becomes 127 or -127; the others are rounded to the nearest multiple of its 127th part, which
// is stored in float16. `elements` is a multiple of 32; what is not finite becomes some
// number.
void quantise_q8_0(const float* values, int64_t elements, std::byte* blocks);

}  // namespace suture
