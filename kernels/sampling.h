// What is read off a row of logits on the device.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "kernels/device.h"

namespace suture {

// The k largest of logits [n], best first, equal values by lower index first.
// ids, values: [k] device memory. k <= n. k = 1 is argmax. NaN counts as -inf.
Status top_k(Stream& stream, const float* logits, int64_t n, int64_t k, int32_t* ids,
             float* values);

// out [n] = logits [n], those of the distinct `ids` [n_ids] made less likely: divided by `penalty`
// where positive, multiplied where not. All in device memory; out may be logits. penalty > 0.
Status penalize(Stream& stream, const float* logits, int64_t n, const int32_t* ids, int64_t n_ids,
                float penalty, float* out);

// out[0] = log(sum exp(logits[i])) over n values, in float64 internally.
Status log_sum_exp(Stream& stream, const float* logits, int64_t n, float* out);

}  // namespace suture
