#include "models/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "models/unicode.h"

namespace suture {
namespace {

constexpr std::string_view kRopeDivisors = "rope_freqs.weight";
constexpr std::string_view kShortDivisors = "rope_factors_short.weight";
constexpr std::string_view kLongDivisors = "rope_factors_long.weight";

constexpr int32_t kGemma3Period = 6;  // five layers with a window, one without

// Metadata under the architecture's own prefix.
class ArchitectureKeys {
 public:
  ArchitectureKeys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(architecture) {}

  const GgufValue* find(std::string_view key) const {
    return file_.find(fmt::format("{}.{}", prefix_, key));
  }
  int32_t integer(std::string_view key, int32_t fallback = 0) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return fallback;
    const auto number = value->as_unsigned();
    return number && *number <= INT32_MAX ? static_cast<int32_t>(*number) : 0;
  }
  float real(std::string_view key, float fallback = 0) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return fallback;
    return static_cast<float>(value->as_float().value_or(0));
  }
  std::string text(std::string_view key) const {
    const GgufValue* value = find(key);
    return std::string(value == nullptr ? "" : value->as_string().value_or(""));
  }

 private:
  const GgufFile& file_;
  std::string_view prefix_;
};

const TensorInfo* find_tensor(std::span<const TensorInfo> tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &TensorInfo::name);
  return found == tensors.end() ? nullptr : &*found;
}

bool has_tensor(std::span<const TensorInfo> tensors, std::string_view name) {
  return find_tensor(tensors, name) != nullptr;
}

int32_t vocab_size_of(const GgufFile& file, const ArchitectureKeys& keys) {
  if (keys.find("vocab_size") != nullptr) return keys.integer("vocab_size");
  const GgufValue* tokens = file.find("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->count > INT32_MAX) return 0;
  return static_cast<int32_t>(tokens->count);
}

void read_sizes(const GgufFile& file, const ArchitectureKeys& keys, ModelConfig& config) {
  config.n_layers = keys.integer("block_count");
  config.n_heads = keys.integer("attention.head_count");
  config.n_kv_heads = keys.integer("attention.head_count_kv", config.n_heads);
  config.hidden_size = keys.integer("embedding_length");
  const int32_t even_share = config.n_heads > 0 && config.hidden_size % config.n_heads == 0
                                 ? config.hidden_size / config.n_heads
                                 : 0;
  config.head_dim = keys.integer("attention.key_length", even_share);
  config.ffn_size = keys.integer("feed_forward_length");
  config.vocab_size = vocab_size_of(file, keys);
  config.max_positions = keys.integer("context_length");
}

// Values of a float32 tensor; empty if there is none, or none that can be read.
std::vector<float> float_values(std::span<const TensorInfo> tensors, std::string_view name) {
  const TensorInfo* tensor = find_tensor(tensors, name);
  if (tensor == nullptr || !tensor->unsupported_type.empty() || tensor->dtype != DType::kF32)
    return {};
  std::vector<float> values(tensor->data.size() / sizeof(float));
  std::memcpy(values.data(), tensor->data.data(), values.size() * sizeof(float));
  return values;
}

// Files state the factor that applies beside YaRN's own 0.1 ln(factor) + 1, and that of longrope
// whole.
float attention_factor_of(const ArchitectureKeys& keys, const RopeSchedule& schedule) {
  const float stated = keys.real("rope.scaling.attn_factor");
  if (schedule.scaling == RopeScaling::kYarn && stated > 0)
    return stated * (0.1f * std::log(std::max(schedule.factor, 1.0f)) + 1);
  return schedule.scaling == RopeScaling::kLongrope ? stated : 0;
}

// Sets `config.unsupported` if this build has no such rule.
RopeSchedule rope_of(const ArchitectureKeys& keys, std::span<const TensorInfo> tensors,
                     ModelConfig& config) {
  RopeSchedule schedule;
  schedule.theta = keys.real("rope.freq_base", 10000);
  schedule.original_positions =
      keys.integer("rope.scaling.original_context_length", config.max_positions);
  const std::string name = keys.text("rope.scaling.type");
  const auto scaling = rope_scaling_of(name.empty() ? "none" : name);
  if (!scaling) {
    config.unsupported = fmt::format("rope scaling '{}' is not supported; known: {}",
                                     printable(name), known_rope_scalings());
    return schedule;
  }
  schedule.scaling = *scaling;
  schedule.factor = keys.real("rope.scaling.factor", keys.real("rope.scale_linear", 1));
  if (name.empty() && schedule.factor > 1) schedule.scaling = RopeScaling::kLinear;
  schedule.beta_fast = keys.real("rope.scaling.yarn_beta_fast", schedule.beta_fast);
  schedule.beta_slow = keys.real("rope.scaling.yarn_beta_slow", schedule.beta_slow);
  // Converters to GGUF evaluate the formula of llama3, and store the divisors that it comes to.
  if (has_tensor(tensors, kRopeDivisors)) {
    schedule.scaling = RopeScaling::kLlama3;
    schedule.factor = 1;
    schedule.long_factors = float_values(tensors, kRopeDivisors);
  }
  if (has_tensor(tensors, kLongDivisors)) {
    schedule.scaling = RopeScaling::kLongrope;
    schedule.short_factors = float_values(tensors, kShortDivisors);
    schedule.long_factors = float_values(tensors, kLongDivisors);
    const auto limit = static_cast<float>(std::max<int64_t>(schedule.original_positions, 1));
    schedule.factor = std::max(static_cast<float>(config.max_positions) / limit, 1.0f);
  }
  schedule.attention_factor = attention_factor_of(keys, schedule);
  return schedule;
}

// Files state the window, but not which layers have it.
std::vector<LayerRule> layer_rules_of(const ArchitectureKeys& keys, const ModelConfig& config) {
  const int32_t n_layers = std::clamp(config.n_layers, 0, 1024);
  const int64_t window =
      keys.integer("attention.sliding_window", config.family == Family::kGemma2 ? 4096 : 0);
  switch (config.family) {
    case Family::kGemma2: return alternating_windows(n_layers, 2, window);
    case Family::kGemma3: {
      auto rules = alternating_windows(n_layers, kGemma3Period, window);
      for (size_t i = 0; i < rules.size(); ++i)
        rules[i].rope = (i + 1) % kGemma3Period != 0 ? kLocalRope : kGlobalRope;
      return rules;
    }
    default: return std::vector<LayerRule>(static_cast<size_t>(n_layers), LayerRule{window, 0});
  }
}

void read_attention(const ArchitectureKeys& keys, std::span<const TensorInfo> tensors,
                    ModelConfig& config) {
  // The scale of the queries is not in the files: it differs from the others only in the largest
  // models of these two families, which are told by their depth.
  const bool by_hidden = (config.family == Family::kGemma2 && config.n_layers == 46) ||
                         (config.family == Family::kGemma3 && config.n_layers == 62);
  const int32_t per_head =
      by_hidden && config.n_heads > 0 ? config.hidden_size / config.n_heads : config.head_dim;
  config.attention_scale =
      keys.real("attention.scale", 1 / std::sqrt(static_cast<float>(std::max(per_head, 1))));
  const bool gemma2 = config.family == Family::kGemma2;
  config.score_cap = keys.real("attn_logit_softcapping", gemma2 ? 50.0f : 0.0f);
  config.logit_cap = keys.real("final_logit_softcapping", gemma2 ? 30.0f : 0.0f);
  // Converters to GGUF permute the q and k rows of this family into neighbouring pairs.
  config.rope_pairing =
      config.family == Family::kLlama ? RopePairing::kNeighbours : RopePairing::kHalves;
  config.ropes = {rope_of(keys, tensors, config)};
  if (config.family == Family::kGemma3) {
    RopeSchedule local;
    local.theta = keys.real("rope.freq_base_swa", 10000);
    config.ropes.push_back(local);
  }
  config.layer_rules = layer_rules_of(keys, config);
}

// What the file asks for and the forward pass does not do; empty if nothing.
std::string unsupported_feature(const ArchitectureKeys& keys, const ModelConfig& config) {
  if (config.family == Family::kUnknown)
    return fmt::format("architecture '{}' is not supported; known: {}", config.architecture,
                       known_families());
  if (keys.integer("attention.sliding_window_pattern", kGemma3Period) != kGemma3Period)
    return "this pattern of windows is not supported; known: five layers with one, one without";
  if (keys.integer("expert_count") > 0) return "mixtures of experts are not supported";
  if (keys.integer("rope.dimension_count", config.head_dim) != config.head_dim)
    return fmt::format("rotating {} of {} head dimensions is not supported",
                       keys.integer("rope.dimension_count"), config.head_dim);
  if (keys.integer("attention.value_length", config.head_dim) != config.head_dim)
    return fmt::format("value heads of {} beside key heads of {} are not supported",
                       keys.integer("attention.value_length"), config.head_dim);
  return {};
}

}  // namespace

bool is_config_tensor(std::string_view name) {
  return name == kRopeDivisors || name == kShortDivisors || name == kLongDivisors;
}

Result<ModelConfig> read_gguf_config(const GgufFile& file, std::span<const TensorInfo> tensors,
                                     const std::string& where) {
  const GgufValue* architecture = file.find("general.architecture");
  if (architecture == nullptr || !architecture->as_string())
    return fail(ErrorCode::kCorrupt, "metadata key 'general.architecture' is missing", where);
  ModelConfig config;
  config.architecture = printable(*architecture->as_string());
  config.family = family_of(config.architecture);
  const ArchitectureKeys keys(file, config.architecture);
  read_sizes(file, keys, config);
  config.norm_eps = keys.real("attention.layer_norm_rms_epsilon");
  if (is_gemma(config.family)) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
    config.activation = Activation::kGeluTanh;
  }
  config.unsupported = unsupported_feature(keys, config);
  read_attention(keys, tensors, config);
  config.qkv_bias = has_tensor(tensors, "blk.0.attn_q.bias");
  config.qk_norm = config.family == Family::kQwen3 || config.family == Family::kGemma3;
  config.post_norms = config.family == Family::kGemma2 || config.family == Family::kGemma3;
  config.fused_qkv = has_tensor(tensors, "blk.0.attn_qkv.weight");
  config.fused_gate_up = config.family == Family::kPhi3;
  config.tied_embeddings = !has_tensor(tensors, "output.weight");
  config.kv_dtype = all_f32(tensors) ? DType::kF32 : DType::kF16;
  if (config.unsupported.empty()) SUTURE_RETURN_IF_ERROR(check_runnable(config, where));
  return config;
}

}  // namespace suture
