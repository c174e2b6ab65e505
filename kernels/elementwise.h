// Ops on single values, float32 in device memory.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/embedding.h"
#include "kernels/rms_norm.h"

namespace suture {

// out = silu(gate) * up, elementwise over n values; silu(x) = x / (1 + exp(-x)). In place allowed.
Status gated_silu(Stream& stream, const float* gate, const float* up, int64_t n, float* out);

// The same with gelu(x) = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, the tanh form of the
// Gaussian error linear unit (Hendrycks & Gimpel, 2016).
Status gated_gelu_tanh(Stream& stream, const float* gate, const float* up, int64_t n, float* out);

// x = cap * tanh(x / cap), elementwise over n values.
Status soft_cap(Stream& stream, float* x, int64_t n, float cap);

// x += y, elementwise over n values.
Status add(Stream& stream, float* x, const float* y, int64_t n);

}  // namespace suture
