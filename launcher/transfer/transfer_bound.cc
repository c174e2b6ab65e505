#include "launcher/transfer/transfer_bound.h"

#include <algorithm>

namespace suture {
namespace {

double matrix_elements(const ModelConfig& config) {
  const double hidden = config.hidden_size;
  const double heads = 2.0 * config.n_heads + 2.0 * config.n_kv_heads;  // q, output, k, v
  return config.n_layers * hidden * (heads * config.head_dim + 3.0 * config.ffn_size);
}

// Entries that the tokens see, in all layers together.
double entries_seen(const ModelConfig& config, int64_t n_tokens, int64_t history) {
  double seen = 0;
  for (const LayerRule& rule : config.layer_rules)
    for (int64_t position = history; position < history + n_tokens; ++position)
      seen += static_cast<double>(rule.window == 0 ? position + 1
                                                   : std::min(position + 1, rule.window));
  return seen;
}

}  // namespace

double reading_flop(const ModelConfig& config, int64_t n_tokens, int64_t history) {
  const double attention =
      2 * entries_seen(config, n_tokens, history) * config.n_heads * config.head_dim;
  const double output = static_cast<double>(config.hidden_size) * config.vocab_size;
  return 2 * (static_cast<double>(n_tokens) * matrix_elements(config) + output + attention);
}

double projection_flop(const Projector& projector, const ModelConfig& target, int64_t n_tokens) {
  double elements = 0;
  if (projector.own_first_layer)
    elements += 2.0 * target.hidden_size * static_cast<double>(projector.target.width());
  for (const LayerProjection& layer : projector.layers)
    for (const LinearMap* map : {&layer.key, &layer.value})
      elements += static_cast<double>(map->in()) * static_cast<double>(map->out());
  return 2 * static_cast<double>(n_tokens) * elements;
}

TransferWork transfer_work(const ModelConfig& source, const ModelConfig& target,
                           const Projector* projector, const TransferShape& shape) {
  const int64_t between = std::max<int64_t>(0, shape.tokens - shape.sink - shape.reread);
  TransferWork work;
  work.normal = reading_flop(target, shape.tokens);
  work.source = reading_flop(source, shape.tokens);
  if (projector != nullptr) work.projected = projection_flop(*projector, target, between);
  work.reread = reading_flop(target, shape.sink) +
                reading_flop(target, shape.reread, shape.tokens - shape.reread);
  return work;
}

}  // namespace suture
