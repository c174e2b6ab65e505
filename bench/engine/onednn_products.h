// How fast oneDNN multiplies bf16 matrices of a model's shapes: the yardstick of prefill.
#pragma once

#include <cstdint>

#include "models/weights.h"

namespace suture {

// Operations a second over all matrices of all layers, each as often as the model has it, for a
// prompt of `n_tokens`, with `threads` threads; the best of three runs of each shape. 0 where this
// build has no oneDNN.
double onednn_flop_per_second(const Weights& weights, int64_t n_tokens, int threads);

}  // namespace suture
