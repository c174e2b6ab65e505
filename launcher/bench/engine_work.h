// What a pass over a model has to read and to compute, from the shapes of its weights.
#pragma once

#include <cstdint>

#include "models/model_config.h"
#include "models/weights.h"

namespace suture {

class EngineWork {
 public:
  EngineWork(const ModelConfig& config, const Weights& weights);

  // Bytes that a generated token reads: every matrix as it lies in memory (the embedding table only
  // where it is the output matrix too), and K and V of `history` entries and its own. Norms, biases
  // and the one row of the embedding table are too few to count.
  double decode_bytes(int64_t history) const;
  // The mean of `n_tokens` tokens one after another, the first with `history` entries before it.
  double decode_bytes(int64_t history, int64_t n_tokens) const;
  // The part of it that is K and V.
  double kv_bytes(int64_t history) const;

  // Floating-point operations, two for a product and its sum, of a prompt of which only the last
  // row's logits are computed.
  double prefill_flop(int64_t n_tokens) const;

 private:
  int64_t entries_seen(int32_t layer, int64_t position) const;

  ModelConfig config_;
  double matrix_bytes_ = 0;
  double layer_elements_ = 0;   // of all layers' matrices
  double output_elements_ = 0;  // of the output matrix
};

}  // namespace suture
