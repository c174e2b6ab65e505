// Root-mean-square normalisation (Zhang & Sennrich, RMSNorm, 2019).
#pragma once

#include <cstdint>

#include "base/error.h"
#include "kernels/device.h"

namespace suture {

// out[r][i] = x[r][i] / sqrt(mean(x[r]^2) + eps) * weight[i].
// x, out: [n_rows][width]; weight: [width]. In place is allowed.
Status rms_norm(Stream& stream, const float* x, const float* weight, int64_t n_rows, int64_t width,
                float eps, float* out);

}  // namespace suture
