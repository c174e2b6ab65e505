#include "models/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/kv_rows.h"
#include "kernels/rope.h"
#include "models/device_array.h"
#include "models/forward_sequence.h"
#include "models/forward_tables.h"

namespace suture {
namespace {

// Observed rows of one attention call: few, for their shares have a place for every head.
constexpr int64_t kObservedRows = 32;

tl::unexpected<Error> invalid(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "forward pass");
}

}  // namespace

struct Forward::State {
  State(const ModelConfig& model, const Weights& model_weights, Stream& work_stream)
      : config(model), weights(model_weights), stream(work_stream), tables(config) {}

  const ModelConfig config;
  const Weights& weights;
  Stream& stream;
  ForwardTables tables;

  // Activations: float32, one row per token, device memory.
  DeviceArray<float> hidden;    // [rows][hidden] the residual stream
  DeviceArray<float> normed;    // [rows][hidden]
  DeviceArray<float> query;     // [rows][n_heads][head_dim], not rotated
  DeviceArray<float> rotated;   // [variants][rows][n_heads][head_dim], kMaxRotatedRows in all
  DeviceArray<float> key;       // [rows][n_kv_heads][head_dim]
  DeviceArray<float> value;     // [rows][n_kv_heads][head_dim]
  DeviceArray<float> attended;  // [rows][n_heads][head_dim]
  DeviceArray<float> delta;     // [rows][hidden] what a block adds to the residual stream
  DeviceArray<float> gate;      // [rows][ffn]
  DeviceArray<float> up;        // [rows][ffn]
  DeviceArray<float> logits;    // [kMaxLogitsRows][vocab]
  DeviceArray<float> shares;    // [kObservedRows][n_heads][kMaxAttentionShares]

  // Of the pass in progress.
  std::vector<ForwardSequence> sequences = std::vector<ForwardSequence>(kMaxSequences);
  std::vector<ForwardSequence*> live;   // those of `sequences` that have not failed
  std::vector<SequenceLogits> results;  // of each sequence that was asked for
  LayerSegments segments;               // of the layer and sequence in progress
  std::vector<AttentionRange> ranges;   // of these, what is observed
  std::vector<float> shares_staging;    // as shares
  MatmulPath path = MatmulPath::kPrefill;
  int64_t n_rows = 0;
  int64_t first_result = 0;  // the last layer goes on with rows [first_result, n_rows)
  int64_t first_open = 0;    // the layer in progress goes on with rows [first_open, n_rows)

  int64_t n_open() const { return n_rows - first_open; }
  // From the first of these rows on, of an array with rows of `width`.
  float* open(DeviceArray<float>& array, int64_t width) const {
    return array.data() + first_open * width;
  }
  int64_t q_size() const { return int64_t{config.n_heads} * config.head_dim; }
  int64_t kv_size() const { return int64_t{config.n_kv_heads} * config.head_dim; }

  Status allocate(Device& device);
  Status run(std::span<const SequenceRows> asked);
  void collect_sequences(std::span<const SequenceRows> asked);
  Status check_together(const ForwardSequence& next) const;

  void find_first_result();
  Status multiply(const float* x, std::span<const MatmulPart> parts, int64_t rows);
  Status multiply_one(const float* x, const WeightView& w, float* out);
  Status norm(const float* weight);
  Status add_block(const float* post_norm);
  Status norm_heads(float* x, const float* weight, int64_t rows, int32_t n_heads);
  Status project(const LayerWeights& w);
  Status append(const ForwardSequence& sequence, int32_t layer);
  void wait_for_segments(int32_t layer);
  Status attend(const ForwardSequence& sequence, int32_t layer);
  Status attend(const ForwardSequence& sequence, int32_t layer, int64_t row, RowRun run);
  Status note_shares(AttentionObservation& observation, int32_t layer, int64_t rows);
  Status rotate_query(const ForwardSequence& sequence, int32_t layer, int64_t row, int64_t rows);
  Status attention_block(int32_t layer);
  Status mlp_block(int32_t layer);
  Status norm_logits_rows(int64_t& rows);
  Status multiply_logits(int64_t rows);
};

Status Forward::State::allocate(Device& device) {
  const int64_t rows = kPrefillGrid;
  const std::pair<DeviceArray<float>*, int64_t> arrays[] = {
      {&hidden, rows * config.hidden_size},
      {&normed, rows * config.hidden_size},
      {&query, rows * q_size()},
      {&rotated, kMaxRotatedRows * q_size()},
      {&key, rows * kv_size()},
      {&value, rows * kv_size()},
      {&attended, rows * q_size()},
      {&delta, rows * config.hidden_size},
      {&gate, rows * config.ffn_size},
      {&up, rows * config.ffn_size},
      {&logits, kMaxLogitsRows * config.vocab_size},
      {&shares, kObservedRows * config.n_heads * kMaxAttentionShares},
  };
  for (const auto& [array, elements] : arrays) {
    SUTURE_ASSIGN_OR_RETURN(*array, DeviceArray<float>::create(device, elements));
  }
  live.reserve(kMaxSequences);
  results.reserve(kMaxSequences);
  segments.segments.reserve(64);
  segments.origins.reserve(64);
  return tables.allocate(device, stream);
}

Status Forward::State::run(std::span<const SequenceRows> asked) {
  if (std::ssize(asked) > kMaxSequences)
    return invalid(fmt::format("{} sequences, at most {}", asked.size(), kMaxSequences));
  collect_sequences(asked);
  if (live.empty()) return {};
  SUTURE_RETURN_IF_ERROR(tables.stage(live, stream));
  find_first_result();
  for (const ForwardSequence* sequence : live)
    sequence->cache().set_rope_epoch(sequence->first_entry(), sequence->n_rows(),
                                     sequence->rope_epoch());
  SUTURE_RETURN_IF_ERROR(embedding(stream, weights.embedding, tables.ids(), n_rows,
                                   config.embedding_scale, hidden.data()));
  for (int32_t layer = 0; layer < config.n_layers && !live.empty(); ++layer) {
    SUTURE_RETURN_IF_ERROR(attention_block(layer));
    SUTURE_RETURN_IF_ERROR(mlp_block(layer));
  }
  int64_t rows = 0;
  SUTURE_RETURN_IF_ERROR(norm_logits_rows(rows));
  return multiply_logits(rows);
}

// Those that can be run; the answer of the others says why not.
void Forward::State::collect_sequences(std::span<const SequenceRows> asked) {
  live.clear();
  n_rows = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    ForwardSequence& next = sequences[live.size()];
    Status status = next.prepare(asked[i], config);
    if (status) status = check_together(next);
    if (!status) {
      results[i] = tl::unexpected<Error>(std::move(status).error());
      continue;
    }
    next.index = i;
    live.push_back(&next);
    n_rows += next.n_rows();
  }
}

// What the sequences share.
Status Forward::State::check_together(const ForwardSequence& next) const {
  int64_t logits_rows = next.n_logits_rows();
  for (const ForwardSequence* sequence : live) {
    logits_rows += sequence->n_logits_rows();
    if (&sequence->cache() == &next.cache())
      return invalid("another sequence of the same pass writes this K/V cache");
  }
  if (n_rows + next.n_rows() > kPrefillGrid)
    return invalid(fmt::format("{} rows of all sequences together, at most {}",
                               n_rows + next.n_rows(), kPrefillGrid));
  if (logits_rows > kMaxLogitsRows)
    return invalid(fmt::format("logits of {} rows, at most {} rows", logits_rows, kMaxLogitsRows));
  return {};
}

void Forward::State::find_first_result() {
  first_result = n_rows;
  for (const ForwardSequence* sequence : live)
    if (const int64_t row = sequence->first_result_row(); row < sequence->n_rows())
      first_result = std::min(first_result, sequence->first_row + row);
}

Status Forward::State::multiply(const float* x, std::span<const MatmulPart> parts, int64_t rows) {
  return matmul(stream, MatmulGroupArgs{x, parts, rows, path});
}

Status Forward::State::multiply_one(const float* x, const WeightView& w, float* out) {
  const MatmulPart part = {w, nullptr, out};
  return multiply(x, std::span(&part, 1), n_open());
}

Status Forward::State::norm(const float* weight) {
  return rms_norm(stream, open(hidden, config.hidden_size), weight, n_open(), config.hidden_size,
                  config.norm_eps, open(normed, config.hidden_size));
}

// Adds what a block computed to the residual stream.
Status Forward::State::add_block(const float* post_norm) {
  float* added = open(delta, config.hidden_size);
  if (config.post_norms)
    SUTURE_RETURN_IF_ERROR(
        rms_norm(stream, added, post_norm, n_open(), config.hidden_size, config.norm_eps, added));
  return add(stream, open(hidden, config.hidden_size), added, n_open() * config.hidden_size);
}

Status Forward::State::norm_heads(float* x, const float* weight, int64_t rows, int32_t n_heads) {
  if (!config.qk_norm) return {};
  return rms_norm(stream, x, weight, rows * n_heads, config.head_dim, config.norm_eps, x);
}

// K and V of all rows, queries of those that go on.
Status Forward::State::project(const LayerWeights& w) {
  const MatmulPart parts[] = {{w.k, w.k_bias, key.data()},
                              {w.v, w.v_bias, value.data()},
                              {w.q, w.q_bias, open(query, q_size())}};
  const std::span<const MatmulPart> all = parts;
  if (first_open == 0) {  // together, so that what is done to the rows is done once
    SUTURE_RETURN_IF_ERROR(multiply(normed.data(), all, n_rows));
  } else {
    SUTURE_RETURN_IF_ERROR(multiply(normed.data(), all.first(2), n_rows));
    SUTURE_RETURN_IF_ERROR(multiply(open(normed, config.hidden_size), all.last(1), n_open()));
  }
  SUTURE_RETURN_IF_ERROR(norm_heads(key.data(), w.k_norm, n_rows, config.n_kv_heads));
  return norm_heads(open(query, q_size()), w.q_norm, n_open(), config.n_heads);
}

// K is stored rotated, V as projected.
Status Forward::State::append(const ForwardSequence& sequence, int32_t layer) {
  RopeArgs rotation = tables.rotation(sequence, layer);
  rotation.x = rotation.out = key.data() + sequence.first_row * kv_size();
  rotation.n_rows = sequence.n_rows();
  rotation.n_heads = config.n_kv_heads;
  SUTURE_RETURN_IF_ERROR(rope(stream, rotation));
  SUTURE_RETURN_IF_ERROR(kv_append(
      stream, {rotation.out, value.data() + sequence.first_row * kv_size(), sequence.n_rows(),
               sequence.first_entry(), config.kv_shape(), sequence.cache().layer_view(layer)}));
  // At once: readers may start on this layer while the next is being computed.
  sequence.cache().commit(layer, sequence.end_entry());
  return {};
}

// A sequence whose segments will not come is gone through no further; its rows stay in the
// products, where nobody reads them.
void Forward::State::wait_for_segments(int32_t layer) {
  std::erase_if(live, [&](const ForwardSequence* sequence) {
    const LayerGate* gate_of = sequence->rows().gate;
    if (gate_of == nullptr || !*gate_of) return false;
    Status status = (*gate_of)(layer);
    if (status) return false;
    results[sequence->index] = tl::unexpected<Error>(std::move(status).error());
    return true;
  });
}

Status Forward::State::rotate_query(const ForwardSequence& sequence, int32_t layer, int64_t row,
                                    int64_t rows) {
  RopeArgs rotation = tables.rotation(sequence, layer);
  rotation.x = query.data() + (sequence.first_row + row) * q_size();
  rotation.out = rotated.data();
  rotation.positions += row;
  rotation.n_rows = rows;
  rotation.n_heads = config.n_heads;
  for (const int64_t shift : sequence.shifts()) {
    rotation.position_shift = -shift;
    SUTURE_RETURN_IF_ERROR(rope(stream, rotation));
    rotation.out += rows * q_size();
  }
  return {};
}

Status Forward::State::attend(const ForwardSequence& sequence, int32_t layer) {
  sequence.collect_segments(layer, tables.row_ends(sequence), segments);
  if (sequence.rows().observation != nullptr) sequence.collect_ranges(segments, ranges);
  const int64_t most = kMaxRotatedRows / std::ssize(sequence.shifts());
  int64_t row = std::clamp<int64_t>(first_open - sequence.first_row, 0, sequence.n_rows());
  segments.pass_by(row);
  while (row < sequence.n_rows()) {
    RowRun run = sequence.run_from(row);
    run.rows = std::min({run.rows, most, run.observed ? kObservedRows : most});
    SUTURE_RETURN_IF_ERROR(attend(sequence, layer, row, run));
    segments.pass_by(run.rows);
    row += run.rows;
  }
  return {};
}

Status Forward::State::attend(const ForwardSequence& sequence, int32_t layer, int64_t row,
                              RowRun run) {
  SUTURE_RETURN_IF_ERROR(rotate_query(sequence, layer, row, run.rows));
  AttentionArgs args;
  args.query = rotated.data();
  args.positions = tables.positions(sequence) + row;
  args.out = attended.data() + (sequence.first_row + row) * q_size();
  args.n_rows = run.rows;
  args.n_variants = static_cast<int32_t>(std::ssize(sequence.shifts()));
  args.n_heads = config.n_heads;
  args.shape = config.kv_shape();
  args.scale = config.attention_scale;
  args.score_cap = config.score_cap;
  args.window = config.layer_rules[static_cast<size_t>(layer)].window;
  args.path = path;
  args.segments = segments.segments;
  if (!run.observed) return attention(stream, args);
  AttentionObservation& observation = *sequence.rows().observation;
  args.shares = shares.data();
  args.n_shares = observation.n_shares;
  args.ranges = ranges;
  SUTURE_RETURN_IF_ERROR(attention(stream, args));
  return note_shares(observation, layer, run.rows);
}

Status Forward::State::note_shares(AttentionObservation& observation, int32_t layer, int64_t rows) {
  const auto n_shares = static_cast<size_t>(observation.n_shares);
  const auto queries = static_cast<size_t>(rows * config.n_heads);
  shares_staging.resize(queries * n_shares);
  SUTURE_RETURN_IF_ERROR(stream.copy_to_host(std::as_writable_bytes(std::span(shares_staging)),
                                             reinterpret_cast<const std::byte*>(shares.data())));
  SUTURE_RETURN_IF_ERROR(stream.synchronize());
  double* mass = observation.mass.data() + static_cast<size_t>(layer) * n_shares;
  for (size_t i = 0; i < shares_staging.size(); ++i)
    mass[i % n_shares] += double{shares_staging[i]} / config.n_heads;
  if (layer == 0) observation.rows += rows;
  return {};
}

Status Forward::State::attention_block(int32_t layer) {
  const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];
  first_open = 0;
  SUTURE_RETURN_IF_ERROR(norm(w.attention_norm));
  if (layer + 1 == config.n_layers) first_open = first_result;
  SUTURE_RETURN_IF_ERROR(project(w));
  for (const ForwardSequence* sequence : live) SUTURE_RETURN_IF_ERROR(append(*sequence, layer));
  wait_for_segments(layer);
  for (const ForwardSequence* sequence : live) SUTURE_RETURN_IF_ERROR(attend(*sequence, layer));
  SUTURE_RETURN_IF_ERROR(
      multiply_one(open(attended, q_size()), w.attention_out, open(delta, config.hidden_size)));
  return add_block(w.post_attention_norm);
}

Status Forward::State::mlp_block(int32_t layer) {
  const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];
  SUTURE_RETURN_IF_ERROR(norm(w.ffn_norm));
  float* gates = open(gate, config.ffn_size);
  float* ups = open(up, config.ffn_size);
  const MatmulPart parts[] = {{w.gate, nullptr, gates}, {w.up, nullptr, ups}};
  SUTURE_RETURN_IF_ERROR(multiply(open(normed, config.hidden_size), parts, n_open()));
  const auto gated = config.activation == Activation::kSilu ? gated_silu : gated_gelu_tanh;
  SUTURE_RETURN_IF_ERROR(gated(stream, gates, ups, n_open() * config.ffn_size, gates));
  SUTURE_RETURN_IF_ERROR(multiply_one(gates, w.down, open(delta, config.hidden_size)));
  return add_block(w.post_ffn_norm);
}

// Rows whose logits are wanted, one after another in `normed`.
Status Forward::State::norm_logits_rows(int64_t& rows) {
  rows = 0;
  for (const ForwardSequence* sequence : live) {
    const int64_t n = sequence->n_logits_rows();
    if (n == 0) continue;
    const int64_t first = sequence->first_row + sequence->rows().first_logits_row;
    SUTURE_RETURN_IF_ERROR(rms_norm(stream, hidden.data() + first * config.hidden_size,
                                    weights.output_norm, n, config.hidden_size, config.norm_eps,
                                    normed.data() + rows * config.hidden_size));
    results[sequence->index] = logits.data() + rows * config.vocab_size;
    rows += n;
  }
  return {};
}

Status Forward::State::multiply_logits(int64_t rows) {
  if (rows == 0) return {};
  SUTURE_RETURN_IF_ERROR(matmul(
      stream, MatmulArgs{normed.data(), weights.output, nullptr, logits.data(), rows, path}));
  if (config.logit_cap > 0)
    return soft_cap(stream, logits.data(), rows * config.vocab_size, config.logit_cap);
  return {};
}

Result<std::unique_ptr<Forward>> Forward::create(const ModelConfig& config, const Weights& weights,
                                                 Device& device, Stream& stream) {
  auto state = std::make_unique<State>(config, weights, stream);
  SUTURE_RETURN_IF_ERROR(state->allocate(device));
  return std::unique_ptr<Forward>(new Forward(std::move(state)));
}

Forward::Forward(std::unique_ptr<State> state) : state_(std::move(state)) {}

Forward::~Forward() = default;

std::span<const SequenceLogits> Forward::run(std::span<const SequenceRows> sequences,
                                             MatmulPath path) {
  State& s = *state_;
  s.path = path;
  s.results.assign(sequences.size(), nullptr);
  if (const Status status = s.run(sequences); !status) {
    for (SequenceLogits& result : s.results)
      if (result) result = tl::unexpected<Error>(status.error());
  }
  return s.results;
}

SequenceLogits Forward::run(const SequenceRows& sequence, MatmulPath path) {
  return run(std::span(&sequence, 1), path).front();
}

Result<const float*> Forward::logits(int64_t first_row, int64_t n_rows) {
  State& s = *state_;
  if (first_row < s.first_result || n_rows < 0 || n_rows > kMaxLogitsRows ||
      first_row + n_rows > s.n_rows)
    return invalid(fmt::format("logits of {} rows from {} of {} to {}, at most {} at a time",
                               n_rows, first_row, s.first_result, s.n_rows, kMaxLogitsRows));
  if (n_rows == 0) return nullptr;
  const float* rows = s.hidden.data() + first_row * s.config.hidden_size;
  SUTURE_RETURN_IF_ERROR(rms_norm(s.stream, rows, s.weights.output_norm, n_rows,
                                  s.config.hidden_size, s.config.norm_eps, s.normed.data()));
  SUTURE_RETURN_IF_ERROR(s.multiply_logits(n_rows));
  return s.logits.data();
}

}  // namespace suture
