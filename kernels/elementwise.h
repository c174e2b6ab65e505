// The small row-wise ops. All activations are float32 in device memory, rows contiguous.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/matmul.h"

namespace suture {

// out[r] = table[ids[r]] * scale; ids [n_rows] in device memory must be below table.rows.
Status embedding(Stream& stream, const WeightView& table, const int32_t* ids, int64_t n_rows,
                 float scale, float* out);

// out[r][i] = x[r][i] / sqrt(mean(x[r]^2) + eps) * weight[i]  (Zhang & Sennrich, RMSNorm, 2019).
// x, out: [n_rows][width]; weight: [width]. In place is allowed.
Status rms_norm(Stream& stream, const float* x, const float* weight, int64_t n_rows, int64_t width,
                float eps, float* out);

// out = silu(gate) * up, elementwise over n values; silu(x) = x / (1 + exp(-x)). In place allowed.
Status gated_silu(Stream& stream, const float* gate, const float* up, int64_t n, float* out);

// x += y, elementwise over n values.
Status add(Stream& stream, float* x, const float* y, int64_t n);

}  // namespace suture
