#include "models/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/rope.h"

namespace suture {
namespace {

// Rotated queries held at a time, all variants together: more variants, fewer rows in one go.
constexpr int64_t kMaxRotatedRows = 1024;
// Segments of which every row has a visible end of its own.
constexpr int64_t kMaxRowRules = 64;

template <typename T>
class DeviceArray {
 public:
  static Result<DeviceArray> create(Device& device, int64_t elements) {
    SUTURE_ASSIGN_OR_RETURN(auto buffer,
                            device.allocate(static_cast<size_t>(elements) * sizeof(T)));
    return DeviceArray(std::move(buffer));
  }
  DeviceArray() = default;
  T* data() { return buffer_->template as<T>(); }

 private:
  explicit DeviceArray(std::unique_ptr<Buffer> buffer) : buffer_(std::move(buffer)) {}
  std::unique_ptr<Buffer> buffer_;
};

tl::unexpected<Error> invalid(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "forward pass");
}

Status check_foreign(const ForeignSegment& segment, const ModelConfig& config) {
  const auto n_layers = static_cast<size_t>(config.n_layers);
  const size_t n_gains = n_layers * static_cast<size_t>(config.n_heads);
  if (segment.layers.size() != n_layers)
    return invalid(fmt::format("a segment has {} layers, the model {}", segment.layers.size(),
                               config.n_layers));
  if (segment.begin < 0 || segment.begin > segment.end)
    return invalid(fmt::format("a segment covers entries {} to {}", segment.begin, segment.end));
  if (!segment.log_gain.empty() && segment.log_gain.size() != n_gains)
    return invalid(
        fmt::format("a segment has {} gains, expected {}", segment.log_gain.size(), n_gains));
  if (segment.end > INT32_MAX) return invalid(fmt::format("a segment ends at {}", segment.end));
  if (!segment.visible_from.empty() && std::ssize(segment.visible_from) < segment.end)
    return invalid(fmt::format("a segment says of {} entries when they are visible, it covers {}",
                               segment.visible_from.size(), segment.end));
  return {};
}

bool has_row_rule(const ForeignSegment& segment) {
  return !segment.visible_from.empty() || segment.visible_until != INT64_MAX;
}

int32_t row_visible_end(const ForeignSegment& segment, int64_t position) {
  if (position >= segment.visible_until) return 0;
  if (segment.visible_from.empty()) return static_cast<int32_t>(segment.end);
  const auto known = segment.visible_from.first(static_cast<size_t>(segment.end));
  return static_cast<int32_t>(std::ranges::upper_bound(known, position) - known.begin());
}

Status check_plan(const SequencePlan& plan, const ModelConfig& config) {
  if (plan.own.empty() || plan.own[0].begin != 0)
    return invalid("the sequence's own runs do not begin at entry 0");
  for (size_t i = 1; i < plan.own.size(); ++i) {
    if (plan.own[i].begin < plan.own[i - 1].begin)
      return invalid("the sequence's own runs are not in order");
  }
  for (const auto* segments : {&plan.before, &plan.after}) {
    for (const ForeignSegment& segment : *segments)
      SUTURE_RETURN_IF_ERROR(check_foreign(segment, config));
  }
  return {};
}

}  // namespace

int64_t position_of(const SequencePlan& plan, int64_t entry) {
  if (plan.own.empty()) return entry;
  size_t run = 0;
  while (run + 1 < plan.own.size() && plan.own[run + 1].begin <= entry) ++run;
  return entry + plan.own[run].position_offset;
}

struct Forward::State {
  State(const ModelConfig& model, const Weights& model_weights, Stream& work_stream)
      : config(model), weights(model_weights), stream(work_stream) {}

  const ModelConfig config;
  const Weights& weights;
  Stream& stream;

  // Activations: float32, one row per token, device memory.
  DeviceArray<int32_t> ids;        // [rows]
  DeviceArray<int32_t> positions;  // [rows]
  DeviceArray<int32_t> row_ends;   // [kMaxRowRules][rows] see AttentionSegment::row_visible_end
  DeviceArray<float> frequencies;  // [ropes][head_dim / 2] radians per position
  DeviceArray<float> hidden;       // [rows][hidden] the residual stream
  DeviceArray<float> normed;       // [rows][hidden]
  DeviceArray<float> query;        // [rows][n_heads][head_dim], not rotated
  DeviceArray<float> rotated;      // [variants][rows][n_heads][head_dim], kMaxRotatedRows in all
  DeviceArray<float> key;          // [rows][n_kv_heads][head_dim]
  DeviceArray<float> value;        // [rows][n_kv_heads][head_dim]
  DeviceArray<float> attended;     // [rows][n_heads][head_dim]
  DeviceArray<float> delta;        // [rows][hidden] what a block adds to the residual stream
  DeviceArray<float> gate;         // [rows][ffn]
  DeviceArray<float> up;           // [rows][ffn]
  DeviceArray<float> logits;       // [kMaxLogitsRows][vocab]

  // Of the run in progress. Host staging must not change before its copies are done.
  std::vector<int32_t> ids_staging;
  std::vector<int32_t> positions_staging;
  std::vector<float> frequencies_staging;  // as `frequencies`
  std::vector<float> attention_factors;    // [ropes]
  int64_t staged_epoch = -1;
  std::vector<int64_t> shifts;               // [variants] rotation_shift of each query variant
  std::vector<AttentionSegment> segments;    // of the layer in progress
  std::vector<const ForeignSegment*> ruled;  // segments with row rules, in the order of row_ends
  std::vector<int32_t> row_ends_staging;     // [ruled][kPrefillGrid]
  const SequencePlan alone;
  const SequencePlan* plan = nullptr;
  KvCache* cache = nullptr;
  MatmulPath path = MatmulPath::kPrefill;
  int64_t first_entry = 0;
  int64_t n_rows = 0;
  int64_t total_length = 0;

  int64_t q_size() const { return int64_t{config.n_heads} * config.head_dim; }
  int64_t kv_size() const { return int64_t{config.n_kv_heads} * config.head_dim; }
  const LayerRule& rule_of(int32_t layer) const {
    return config.layer_rules[static_cast<size_t>(layer)];
  }
  int64_t end_entry() const { return first_entry + n_rows; }

  Status allocate(Device& device);
  Status begin(const ForwardArgs& args);
  Status stage_ropes(int64_t epoch);
  Status stage_rows(std::span<const int32_t> token_ids);
  Status stage_row_ends();
  void collect_shifts();
  int32_t variant_of(int64_t shift) const;
  void collect_segments(int32_t layer);
  void add_own(size_t run, const KvLayerView& kv);
  void add_foreign(const ForeignSegment& segment, int32_t layer);

  Status multiply(const float* x, const WeightView& w, const float* bias, float* out);
  Status norm(const float* weight);
  Status add_block(const float* post_norm);
  Status norm_heads(float* x, const float* weight, int32_t n_heads);
  RopeArgs rotation_of(int32_t layer);
  Status project_and_append(int32_t layer);
  Status attend(int32_t layer);
  Status attention_block(int32_t layer, const LayerGate* wait_for_segments);
  Status mlp_block(int32_t layer);
};

Status Forward::State::allocate(Device& device) {
  const int64_t rows = kPrefillGrid;
  SUTURE_ASSIGN_OR_RETURN(ids, DeviceArray<int32_t>::create(device, rows));
  SUTURE_ASSIGN_OR_RETURN(positions, DeviceArray<int32_t>::create(device, rows));
  SUTURE_ASSIGN_OR_RETURN(row_ends, DeviceArray<int32_t>::create(device, kMaxRowRules * rows));
  const std::pair<DeviceArray<float>*, int64_t> arrays[] = {
      {&frequencies, std::ssize(config.ropes) * (config.head_dim / 2)},
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
  };
  for (const auto& [array, elements] : arrays) {
    SUTURE_ASSIGN_OR_RETURN(*array, DeviceArray<float>::create(device, elements));
  }
  ids_staging.reserve(static_cast<size_t>(rows));
  positions_staging.reserve(static_cast<size_t>(rows));
  shifts.reserve(64);
  segments.reserve(64);
  frequencies_staging.reserve(config.ropes.size() * static_cast<size_t>(config.head_dim / 2));
  attention_factors.reserve(config.ropes.size());
  SUTURE_RETURN_IF_ERROR(stage_ropes(0));
  return stream.synchronize();
}

// The tables of the rows to come, unless they are those of the last.
Status Forward::State::stage_ropes(int64_t epoch) {
  if (epoch == staged_epoch) return {};
  frequencies_staging.clear();
  attention_factors.clear();
  for (const RopeSchedule& schedule : config.ropes) {
    const RopeTable table = rope_table(schedule, config.head_dim, epoch);
    frequencies_staging.insert(frequencies_staging.end(), table.frequencies.begin(),
                               table.frequencies.end());
    attention_factors.push_back(table.attention_factor);
  }
  staged_epoch = epoch;
  return stream.copy_to_device(reinterpret_cast<std::byte*>(frequencies.data()),
                               std::as_bytes(std::span(frequencies_staging)));
}

Status Forward::State::begin(const ForwardArgs& args) {
  const auto rows = static_cast<int64_t>(args.token_ids.size());
  if (args.cache == nullptr || !(args.cache->shape() == config.kv_shape()))
    return invalid("the K/V cache has another shape than the model");
  if (rows < 1 || rows > kPrefillGrid)
    return invalid(fmt::format("{} rows, expected 1 to {}", rows, kPrefillGrid));
  if (args.first_logits_row > rows || rows - args.first_logits_row > kMaxLogitsRows)
    return invalid(fmt::format("logits from row {} of {}, at most {} rows", args.first_logits_row,
                               rows, kMaxLogitsRows));
  if (args.cache->size() + rows > args.cache->capacity())
    return fail(ErrorCode::kOutOfMemory,
                fmt::format("{} entries and {} more do not fit a K/V cache of {}",
                            args.cache->size(), rows, args.cache->capacity()),
                "forward pass", "raise max_seq_len, or ask for fewer tokens");
  for (const int32_t id : args.token_ids) {
    if (id < 0 || id >= config.vocab_size)
      return invalid(
          fmt::format("token id {} is outside the vocabulary of {}", id, config.vocab_size));
  }
  plan = args.plan != nullptr ? args.plan : &alone;
  SUTURE_RETURN_IF_ERROR(check_plan(*plan, config));
  cache = args.cache;
  path = args.path;
  total_length = args.total_length;
  first_entry = args.cache->size();
  n_rows = rows;
  collect_shifts();
  if (std::ssize(shifts) > kMaxRotatedRows)
    return invalid(
        fmt::format("{} different rotation shifts, at most {}", shifts.size(), kMaxRotatedRows));
  SUTURE_RETURN_IF_ERROR(stage_rows(args.token_ids));
  return stage_row_ends();
}

Status Forward::State::stage_rows(std::span<const int32_t> token_ids) {
  SUTURE_RETURN_IF_ERROR(stream.synchronize());  // the last run's copies
  ids_staging.assign(token_ids.begin(), token_ids.end());
  positions_staging.clear();
  for (int64_t entry = first_entry; entry < end_entry(); ++entry) {
    const int64_t position = position_of(*plan, entry);
    if (position < INT32_MIN || position > INT32_MAX)
      return invalid(fmt::format("entry {} has position {}", entry, position));
    positions_staging.push_back(static_cast<int32_t>(position));
  }
  const int64_t length = std::max(int64_t{positions_staging.back()} + 1, total_length);
  const int64_t epoch = rope_epoch(config.ropes, length);
  cache->set_rope_epoch(first_entry, n_rows, epoch);
  SUTURE_RETURN_IF_ERROR(stage_ropes(epoch));
  SUTURE_RETURN_IF_ERROR(stream.copy_to_device(reinterpret_cast<std::byte*>(ids.data()),
                                               std::as_bytes(std::span(ids_staging))));
  return stream.copy_to_device(reinterpret_cast<std::byte*>(positions.data()),
                               std::as_bytes(std::span(positions_staging)));
}

// How far each row sees into the segments that say so themselves.
Status Forward::State::stage_row_ends() {
  ruled.clear();
  row_ends_staging.clear();
  for (const auto* foreign : {&plan->before, &plan->after}) {
    for (const ForeignSegment& segment : *foreign) {
      if (!has_row_rule(segment)) continue;
      ruled.push_back(&segment);
      for (const int32_t position : positions_staging)
        row_ends_staging.push_back(row_visible_end(segment, position));
      row_ends_staging.resize(ruled.size() * kPrefillGrid);
    }
  }
  if (std::ssize(ruled) > kMaxRowRules)
    return invalid(
        fmt::format("{} segments with rules of their own, at most {}", ruled.size(), kMaxRowRules));
  if (ruled.empty()) return {};
  return stream.copy_to_device(reinterpret_cast<std::byte*>(row_ends.data()),
                               std::as_bytes(std::span(row_ends_staging)));
}

// Variant 0 is the query at its own position, which the sequence's own K meets.
void Forward::State::collect_shifts() {
  shifts.assign(1, 0);
  for (const auto* foreign : {&plan->before, &plan->after}) {
    for (const ForeignSegment& segment : *foreign) {
      if (std::find(shifts.begin(), shifts.end(), segment.rotation_shift) == shifts.end())
        shifts.push_back(segment.rotation_shift);
    }
  }
}

int32_t Forward::State::variant_of(int64_t shift) const {
  return static_cast<int32_t>(std::find(shifts.begin(), shifts.end(), shift) - shifts.begin());
}

// In the order of the text: what the sequence began with, what was put before its last run, that
// run, and what goes along with it.
void Forward::State::collect_segments(int32_t layer) {
  segments.clear();
  const KvLayerView kv = cache->layer_view(layer);
  for (size_t run = 0; run + 1 < plan->own.size(); ++run) add_own(run, kv);
  for (const ForeignSegment& segment : plan->before) add_foreign(segment, layer);
  add_own(plan->own.size() - 1, kv);
  for (const ForeignSegment& segment : plan->after) add_foreign(segment, layer);
}

void Forward::State::add_own(size_t run, const KvLayerView& kv) {
  AttentionSegment segment;
  segment.kv = kv;
  segment.begin = plan->own[run].begin;
  segment.end = end_entry();
  if (run + 1 < plan->own.size()) segment.end = std::min(segment.end, plan->own[run + 1].begin);
  segment.position_offset = plan->own[run].position_offset;
  if (segment.begin < segment.end) segments.push_back(segment);
}

void Forward::State::add_foreign(const ForeignSegment& foreign, int32_t layer) {
  const KvLayerView& kv = foreign.layers[static_cast<size_t>(layer)];
  if (kv.base == nullptr || foreign.begin == foreign.end) return;
  AttentionSegment segment;
  segment.kv = kv;
  segment.begin = foreign.begin;
  segment.end = foreign.end;
  segment.position_offset = foreign.position_offset;
  segment.visibility = foreign.visibility;
  segment.lag = foreign.lag;
  if (const auto rule = std::find(ruled.begin(), ruled.end(), &foreign); rule != ruled.end())
    segment.row_visible_end = row_ends.data() + (rule - ruled.begin()) * kPrefillGrid;
  segment.query_variant = variant_of(foreign.rotation_shift);
  if (!foreign.log_gain.empty())
    segment.log_gain = foreign.log_gain.data() + int64_t{layer} * config.n_heads;
  segments.push_back(segment);
}

Status Forward::State::multiply(const float* x, const WeightView& w, const float* bias,
                                float* out) {
  return matmul(stream, {x, w, bias, out, n_rows, path});
}

Status Forward::State::norm(const float* weight) {
  return rms_norm(stream, hidden.data(), weight, n_rows, config.hidden_size, config.norm_eps,
                  normed.data());
}

// Adds what a block computed to the residual stream.
Status Forward::State::add_block(const float* post_norm) {
  if (config.post_norms)
    SUTURE_RETURN_IF_ERROR(rms_norm(stream, delta.data(), post_norm, n_rows, config.hidden_size,
                                    config.norm_eps, delta.data()));
  return add(stream, hidden.data(), delta.data(), n_rows * config.hidden_size);
}

Status Forward::State::norm_heads(float* x, const float* weight, int32_t n_heads) {
  if (!config.qk_norm) return {};
  return rms_norm(stream, x, weight, n_rows * n_heads, config.head_dim, config.norm_eps, x);
}

// What the rotations of a layer have in common.
RopeArgs Forward::State::rotation_of(int32_t layer) {
  const int32_t rope = rule_of(layer).rope;
  RopeArgs rotation;
  rotation.frequencies = frequencies.data() + int64_t{rope} * (config.head_dim / 2);
  rotation.attention_factor = attention_factors[static_cast<size_t>(rope)];
  rotation.pairing = config.rope_pairing;
  rotation.head_dim = config.head_dim;
  return rotation;
}

// K is stored rotated, V as projected.
Status Forward::State::project_and_append(int32_t layer) {
  const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];
  SUTURE_RETURN_IF_ERROR(multiply(normed.data(), w.q, w.q_bias, query.data()));
  SUTURE_RETURN_IF_ERROR(multiply(normed.data(), w.k, w.k_bias, key.data()));
  SUTURE_RETURN_IF_ERROR(multiply(normed.data(), w.v, w.v_bias, value.data()));
  SUTURE_RETURN_IF_ERROR(norm_heads(query.data(), w.q_norm, config.n_heads));
  SUTURE_RETURN_IF_ERROR(norm_heads(key.data(), w.k_norm, config.n_kv_heads));
  RopeArgs rotation = rotation_of(layer);
  rotation.x = key.data();
  rotation.out = key.data();
  rotation.positions = positions.data();
  rotation.n_rows = n_rows;
  rotation.n_heads = config.n_kv_heads;
  SUTURE_RETURN_IF_ERROR(rope(stream, rotation));
  SUTURE_RETURN_IF_ERROR(kv_append(stream, {key.data(), value.data(), n_rows, first_entry,
                                            config.kv_shape(), cache->layer_view(layer)}));
  // At once: readers may start on this layer while the next is being computed.
  cache->commit(layer, end_entry());
  return {};
}

Status Forward::State::attend(int32_t layer) {
  collect_segments(layer);
  const int64_t n_variants = std::ssize(shifts);
  const int64_t rows_at_once = kMaxRotatedRows / n_variants;
  for (int64_t first = 0; first < n_rows; first += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, n_rows - first);
    for (int64_t variant = 0; variant < n_variants; ++variant) {
      RopeArgs rotation = rotation_of(layer);
      rotation.x = query.data() + first * q_size();
      rotation.out = rotated.data() + variant * rows * q_size();
      rotation.positions = positions.data() + first;
      rotation.position_shift = -shifts[static_cast<size_t>(variant)];
      rotation.n_rows = rows;
      rotation.n_heads = config.n_heads;
      SUTURE_RETURN_IF_ERROR(rope(stream, rotation));
    }
    AttentionArgs args;
    args.query = rotated.data();
    args.positions = positions.data() + first;
    args.out = attended.data() + first * q_size();
    args.n_rows = rows;
    args.n_variants = static_cast<int32_t>(n_variants);
    args.n_heads = config.n_heads;
    args.shape = config.kv_shape();
    args.scale = config.attention_scale;
    args.score_cap = config.score_cap;
    args.window = rule_of(layer).window;
    args.segments = segments;
    SUTURE_RETURN_IF_ERROR(attention(stream, args));
    for (AttentionSegment& segment : segments)
      if (segment.row_visible_end != nullptr) segment.row_visible_end += rows;
  }
  return {};
}

Status Forward::State::attention_block(int32_t layer, const LayerGate* wait_for_segments) {
  const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];
  SUTURE_RETURN_IF_ERROR(norm(w.attention_norm));
  SUTURE_RETURN_IF_ERROR(project_and_append(layer));
  if (wait_for_segments != nullptr && *wait_for_segments)
    SUTURE_RETURN_IF_ERROR((*wait_for_segments)(layer));
  SUTURE_RETURN_IF_ERROR(attend(layer));
  SUTURE_RETURN_IF_ERROR(multiply(attended.data(), w.attention_out, nullptr, delta.data()));
  return add_block(w.post_attention_norm);
}

Status Forward::State::mlp_block(int32_t layer) {
  const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];
  SUTURE_RETURN_IF_ERROR(norm(w.ffn_norm));
  SUTURE_RETURN_IF_ERROR(multiply(normed.data(), w.gate, nullptr, gate.data()));
  SUTURE_RETURN_IF_ERROR(multiply(normed.data(), w.up, nullptr, up.data()));
  const auto gated = config.activation == Activation::kSilu ? gated_silu : gated_gelu_tanh;
  SUTURE_RETURN_IF_ERROR(
      gated(stream, gate.data(), up.data(), n_rows * config.ffn_size, gate.data()));
  SUTURE_RETURN_IF_ERROR(multiply(gate.data(), w.down, nullptr, delta.data()));
  return add_block(w.post_ffn_norm);
}

Result<std::unique_ptr<Forward>> Forward::create(const ModelConfig& config, const Weights& weights,
                                                 Device& device, Stream& stream) {
  auto state = std::make_unique<State>(config, weights, stream);
  SUTURE_RETURN_IF_ERROR(state->allocate(device));
  return std::unique_ptr<Forward>(new Forward(std::move(state)));
}

Forward::Forward(std::unique_ptr<State> state) : state_(std::move(state)) {}

Forward::~Forward() = default;

Result<const float*> Forward::run(const ForwardArgs& args) {
  State& s = *state_;
  SUTURE_RETURN_IF_ERROR(s.begin(args));
  SUTURE_RETURN_IF_ERROR(embedding(s.stream, s.weights.embedding, s.ids.data(), s.n_rows,
                                   s.config.embedding_scale, s.hidden.data()));
  for (int32_t layer = 0; layer < s.config.n_layers; ++layer) {
    SUTURE_RETURN_IF_ERROR(s.attention_block(layer, args.gate));
    SUTURE_RETURN_IF_ERROR(s.mlp_block(layer));
  }
  return logits(args.first_logits_row, s.n_rows - args.first_logits_row);
}

Result<const float*> Forward::logits(int64_t first_row, int64_t n_rows) {
  State& s = *state_;
  if (first_row < 0 || n_rows < 0 || n_rows > kMaxLogitsRows || first_row + n_rows > s.n_rows)
    return invalid(fmt::format("logits of {} rows from {} of {}, at most {} at a time", n_rows,
                               first_row, s.n_rows, kMaxLogitsRows));
  if (n_rows == 0) return nullptr;
  const float* rows = s.hidden.data() + first_row * s.config.hidden_size;
  SUTURE_RETURN_IF_ERROR(rms_norm(s.stream, rows, s.weights.output_norm, n_rows,
                                  s.config.hidden_size, s.config.norm_eps, s.normed.data()));
  SUTURE_RETURN_IF_ERROR(matmul(
      s.stream, {s.normed.data(), s.weights.output, nullptr, s.logits.data(), n_rows, s.path}));
  if (s.config.logit_cap > 0)
    SUTURE_RETURN_IF_ERROR(
        soft_cap(s.stream, s.logits.data(), n_rows * s.config.vocab_size, s.config.logit_cap));
  return s.logits.data();
}

}  // namespace suture
