#include "launcher/bench/engine_work.h"

#include <algorithm>

#include "kernels/dtype.h"
#include "kernels/packed_weights.h"

namespace suture {
namespace {

double bytes_of(const WeightView& w) {
  if (w.layout == WeightLayout::kTiles)
    return static_cast<double>(packed_bytes(w.dtype, w.rows, w.cols).value_or(0));
  return static_cast<double>(dtype_bytes(w.dtype, w.rows * w.cols).value_or(0));
}

double elements_of(const WeightView& w) {
  return static_cast<double>(w.rows) * static_cast<double>(w.cols);
}

}  // namespace

EngineWork::EngineWork(const ModelConfig& config, const Weights& weights) : config_(config) {
  for (const LayerWeights& layer : weights.layers) {
    for (const WeightView* w : {&layer.q, &layer.k, &layer.v, &layer.attention_out, &layer.gate,
                                &layer.up, &layer.down}) {
      matrix_bytes_ += bytes_of(*w);
      layer_elements_ += elements_of(*w);
    }
  }
  matrix_bytes_ += bytes_of(weights.output);
  output_elements_ = elements_of(weights.output);
}

int64_t EngineWork::entries_seen(int32_t layer, int64_t position) const {
  const int64_t window = config_.layer_rules[static_cast<size_t>(layer)].window;
  return window == 0 ? position + 1 : std::min(position + 1, window);
}

double EngineWork::kv_bytes(int64_t history) const {
  const KvShape shape = config_.kv_shape();
  const int64_t row = 2 * int64_t{shape.n_kv_heads} * shape.head_dim;  // of K and V
  double entries = 0;
  for (int32_t layer = 0; layer < config_.n_layers; ++layer)
    entries += static_cast<double>(entries_seen(layer, history));
  return entries * static_cast<double>(dtype_bytes(shape.dtype, row).value_or(0));
}

double EngineWork::decode_bytes(int64_t history) const { return matrix_bytes_ + kv_bytes(history); }

double EngineWork::decode_bytes(int64_t history, int64_t n_tokens) const {
  double sum = 0;
  for (int64_t i = 0; i < n_tokens; ++i) sum += decode_bytes(history + i);
  return sum / static_cast<double>(n_tokens);
}

double EngineWork::prefill_flop(int64_t n_tokens) const {
  double entries = 0;  // seen by all tokens in all layers
  for (int32_t layer = 0; layer < config_.n_layers; ++layer)
    for (int64_t position = 0; position < n_tokens; ++position)
      entries += static_cast<double>(entries_seen(layer, position));
  const double attention = 2 * entries * config_.n_heads * config_.head_dim;  // q.k and p.v
  return 2 * (static_cast<double>(n_tokens) * layer_elements_ + output_elements_ + attention);
}

}  // namespace suture
