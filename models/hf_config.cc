#include "models/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "models/json_text.h"
#include "models/unicode.h"

namespace suture {
namespace {

using nlohmann::json;

// Values of one JSON object; null counts as absent. A value of the wrong type is remembered as the
// error of the whole reading.
class ConfigReader {
 public:
  ConfigReader(const json& config, const std::string& where) : config_(config), where_(where) {}

  int32_t integer(const char* key, int32_t fallback) {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_number_unsigned() && value->get<uint64_t>() <= INT32_MAX)
      return value->get<int32_t>();
    return wrong(key, *value, "a whole number"), fallback;
  }
  float real(const char* key, float fallback) {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_number()) return value->get<float>();
    return wrong(key, *value, "a number"), fallback;
  }
  bool flag(const char* key, bool fallback) {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_boolean()) return value->get<bool>();
    return wrong(key, *value, "true or false"), fallback;
  }
  std::string text(const char* key, const char* fallback) {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_string()) return value->get<std::string>();
    return wrong(key, *value, "a string"), fallback;
  }
  std::vector<float> reals(const char* key) {
    const json* value = find(key);
    if (value == nullptr) return {};
    const bool numbers = value->is_array() && std::ranges::all_of(*value, [](const json& element) {
                           return element.is_number();
                         });
    if (numbers) return value->get<std::vector<float>>();
    return wrong(key, *value, "a list of numbers"), std::vector<float>();
  }
  bool has(const char* key) const { return config_.contains(key); }
  const json* find(const char* key) const {
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }
  Status status() const {
    if (!error_.empty()) return fail(ErrorCode::kCorrupt, error_, where_);
    return {};
  }

 private:
  void wrong(const char* key, const json& value, std::string_view expected) {
    if (error_.empty())
      error_ = fmt::format("'{}' is {}, expected {}", key, json_text(value), expected);
  }

  const json& config_;
  const std::string& where_;
  std::string error_;
};

// The values that the hub's library assumes where config.json says nothing.
struct Defaults {
  std::string_view model_type;
  Family family;
  int32_t vocab_size, hidden_size, ffn_size, n_layers, n_heads;
  int32_t n_kv_heads;  // 0 = as many as heads
  int32_t head_dim;    // 0 = hidden size / heads
  int32_t max_positions;
  float norm_eps;
  float rope_theta;
  int32_t window;  // 0 = none
};

constexpr std::array<Defaults, 8> kDefaults = {{
    {"llama", Family::kLlama, 32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6f, 1e4f, 0},
    {"mistral", Family::kLlama, 32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6f, 1e4f, 4096},
    {"qwen2", Family::kQwen2, 151936, 4096, 22016, 32, 32, 32, 0, 32768, 1e-6f, 1e4f, 4096},
    {"qwen3", Family::kQwen3, 151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6f, 1e4f, 4096},
    {"phi3", Family::kPhi3, 32064, 3072, 8192, 32, 32, 0, 0, 4096, 1e-5f, 1e4f, 0},
    {"gemma", Family::kGemma, 256000, 3072, 24576, 28, 16, 16, 256, 8192, 1e-6f, 1e4f, 0},
    {"gemma2", Family::kGemma2, 256000, 2304, 9216, 26, 8, 4, 256, 8192, 1e-6f, 1e4f, 4096},
    {"gemma3_text", Family::kGemma3, 262208, 2304, 9216, 26, 8, 4, 256, 131072, 1e-6f, 1e6f, 4096},
}};

std::string known_model_types() {
  std::string names;
  for (const Defaults& defaults : kDefaults)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", defaults.model_type);
  return names;
}

// For architectures without a row: so that the file can be looked at.
const Defaults& defaults_of(std::string_view model_type) {
  const auto found = std::ranges::find(kDefaults, model_type, &Defaults::model_type);
  return found == kDefaults.end() ? kDefaults.front() : *found;
}

void read_sizes(ConfigReader& reader, const Defaults& defaults, ModelConfig& config) {
  config.n_layers = reader.integer("num_hidden_layers", defaults.n_layers);
  config.n_heads = reader.integer("num_attention_heads", defaults.n_heads);
  config.n_kv_heads = reader.integer(
      "num_key_value_heads", defaults.n_kv_heads > 0 ? defaults.n_kv_heads : config.n_heads);
  config.hidden_size = reader.integer("hidden_size", defaults.hidden_size);
  const int32_t share = config.n_heads > 0 ? config.hidden_size / config.n_heads : 0;
  config.head_dim = reader.integer("head_dim", defaults.head_dim > 0 ? defaults.head_dim : share);
  config.ffn_size = reader.integer("intermediate_size", defaults.ffn_size);
  config.vocab_size = reader.integer("vocab_size", defaults.vocab_size);
  config.max_positions = reader.integer("max_position_embeddings", defaults.max_positions);
  config.norm_eps = reader.real("rms_norm_eps", defaults.norm_eps);
}

// Gemma names its activation `hidden_activation`; where only the older `hidden_act` is given, its
// "gelu" meant the tanh form all along.
void read_activation(ConfigReader& reader, ModelConfig& config) {
  const bool gemma = is_gemma(config.family);
  const std::string name = gemma ? reader.text("hidden_activation", "gelu_pytorch_tanh")
                                 : reader.text("hidden_act", "silu");
  if (name == "silu")
    config.activation = Activation::kSilu;
  else if (name == "gelu_pytorch_tanh")
    config.activation = Activation::kGeluTanh;
  else
    config.unsupported = fmt::format(
        "activation '{}' is not supported; known: silu, gelu_pytorch_tanh", printable(name));
}

// Files name the kind of scaling `rope_type` or, in older ones, `type`.
std::string scaling_name(const json& scaling) {
  for (const char* key : {"rope_type", "type"}) {
    const auto found = scaling.find(key);
    if (found != scaling.end() && found->is_string()) return found->get<std::string>();
  }
  return scaling.is_object() ? "default" : "of a form this build does not know";
}

// DeepSeek's variant of YaRN states its attention factor as a quotient of two of these.
float yarn_mscale(float factor, float weight) {
  return factor <= 1 ? 1 : 0.1f * weight * std::log(factor) + 1;
}

Status read_yarn(ConfigReader& scaling, RopeSchedule& schedule) {
  schedule.beta_fast = scaling.real("beta_fast", schedule.beta_fast);
  schedule.beta_slow = scaling.real("beta_slow", schedule.beta_slow);
  schedule.attention_factor = scaling.real("attention_factor", 0);
  const float mscale = scaling.real("mscale", 0);
  const float all_dim = scaling.real("mscale_all_dim", 0);
  if (schedule.attention_factor == 0 && mscale > 0 && all_dim > 0)
    schedule.attention_factor =
        yarn_mscale(schedule.factor, mscale) / yarn_mscale(schedule.factor, all_dim);
  return scaling.status();
}

// `object` is `rope_scaling`; sets `config.unsupported` if this build has no such rule.
Status read_scaling(const json& object, ConfigReader& reader, const std::string& where,
                    RopeSchedule& schedule, ModelConfig& config) {
  const std::string name = scaling_name(object);
  const auto kind = rope_scaling_of(name);
  if (!kind) {
    config.unsupported = fmt::format("rope scaling '{}' is not supported; known: {}",
                                     printable(name), known_rope_scalings());
    return {};
  }
  ConfigReader scaling(object, where);
  schedule.scaling = *kind;
  schedule.factor = scaling.real("factor", 1);
  // Phi-3 states the limit beside the table, the others within it.
  schedule.original_positions =
      scaling.integer("original_max_position_embeddings",
                      reader.integer("original_max_position_embeddings", config.max_positions));
  if (*kind == RopeScaling::kYarn) return read_yarn(scaling, schedule);
  if (*kind == RopeScaling::kLlama3) {
    schedule.low_freq_factor = scaling.real("low_freq_factor", schedule.low_freq_factor);
    schedule.high_freq_factor = scaling.real("high_freq_factor", schedule.high_freq_factor);
  }
  if (*kind == RopeScaling::kLongrope) {
    schedule.attention_factor = scaling.real("attention_factor", 0);
    schedule.short_factors = scaling.reals("short_factor");
    schedule.long_factors = scaling.reals("long_factor");
    const auto limit = static_cast<float>(std::max<int64_t>(schedule.original_positions, 1));
    if (schedule.original_positions < config.max_positions)
      schedule.factor = static_cast<float>(config.max_positions) / limit;
  }
  return scaling.status();
}

Status read_ropes(ConfigReader& reader, const Defaults& defaults, const std::string& where,
                  ModelConfig& config) {
  RopeSchedule schedule;
  schedule.theta = reader.real("rope_theta", defaults.rope_theta);
  // Newer files have one object for both.
  const json* parameters = reader.find("rope_parameters");
  const json* scaling = parameters != nullptr ? parameters : reader.find("rope_scaling");
  if (parameters != nullptr && parameters->is_object()) {
    ConfigReader inner(*parameters, where);
    schedule.theta = inner.real("rope_theta", schedule.theta);
    SUTURE_RETURN_IF_ERROR(inner.status());
  }
  if (scaling != nullptr)
    SUTURE_RETURN_IF_ERROR(read_scaling(*scaling, reader, where, schedule, config));
  config.ropes = {schedule};
  if (config.family == Family::kGemma3) {
    RopeSchedule local;
    local.theta = reader.real("rope_local_base_freq", 10000);
    config.ropes.push_back(local);
  }
  return {};
}

// Windows of the layers where the file does not list them, as its family has them.
std::vector<LayerRule> usual_rules(ConfigReader& reader, int64_t window, int32_t n_layers,
                                   ModelConfig& config) {
  switch (config.family) {
    case Family::kQwen2:
    case Family::kQwen3: {
      std::vector<LayerRule> rules(static_cast<size_t>(n_layers));
      const int32_t first = std::min(reader.integer("max_window_layers", 28), n_layers);
      for (LayerRule& rule : std::span(rules).subspan(static_cast<size_t>(first)))
        rule.window = window;
      return rules;
    }
    case Family::kGemma2: return alternating_windows(n_layers, 2, window);
    case Family::kGemma3: {
      const int32_t period =
          reader.integer("sliding_window_pattern", reader.integer("_sliding_window_pattern", 6));
      return alternating_windows(n_layers, std::max(period, 1), window);
    }
    default: return std::vector<LayerRule>(static_cast<size_t>(n_layers), LayerRule{window, 0});
  }
}

// `types` is a list of "sliding_attention" and "full_attention", one for each layer.
std::vector<LayerRule> listed_rules(const json& types, int64_t window, ModelConfig& config) {
  std::vector<LayerRule> rules;
  if (!types.is_array()) return rules;
  for (const json& type : types) {
    if (type != "sliding_attention" && type != "full_attention")
      config.unsupported =
          "'layer_types' names others than the known: full_attention, sliding_attention";
    rules.push_back({type == "sliding_attention" ? window : 0, kGlobalRope});
  }
  return rules;
}

void read_layer_rules(ConfigReader& reader, const Defaults& defaults, ModelConfig& config) {
  const int32_t n_layers = std::clamp(config.n_layers, 0, 1024);
  const bool qwen = config.family == Family::kQwen2 || config.family == Family::kQwen3;
  // Others may state a window without having one.
  const bool windowed = qwen ? reader.flag("use_sliding_window", false)
                             : defaults.window > 0 || config.family == Family::kPhi3;
  int64_t window = reader.integer("sliding_window", defaults.window);
  // A window that a file sets to null is none, whatever the default of its family.
  const bool null_window = reader.has("sliding_window") && reader.find("sliding_window") == nullptr;
  if (!windowed || null_window) window = 0;
  const json* types = is_gemma(config.family) || qwen ? reader.find("layer_types") : nullptr;
  config.layer_rules = types != nullptr ? listed_rules(*types, window, config)
                                        : usual_rules(reader, window, n_layers, config);
  if (config.family != Family::kGemma3) return;
  for (LayerRule& rule : config.layer_rules) rule.rope = rule.window > 0 ? kLocalRope : kGlobalRope;
}

void read_attention(ConfigReader& reader, ModelConfig& config) {
  const bool scaled = config.family == Family::kGemma2 || config.family == Family::kGemma3;
  const float scalar = scaled ? reader.real("query_pre_attn_scalar", 256)
                              : static_cast<float>(std::max(config.head_dim, 1));
  config.attention_scale = 1 / std::sqrt(scalar);
  if (!scaled) return;
  const bool gemma2 = config.family == Family::kGemma2;
  config.score_cap = reader.real("attn_logit_softcapping", gemma2 ? 50.0f : 0.0f);
  config.logit_cap = reader.real("final_logit_softcapping", gemma2 ? 30.0f : 0.0f);
}

// What the file asks for and the forward pass does not do; empty if nothing.
std::string unsupported_feature(ConfigReader& reader, const ModelConfig& config) {
  if (config.family == Family::kUnknown)
    return fmt::format("architecture '{}' is not supported; known: {}", config.architecture,
                       known_model_types());
  if (reader.flag("attention_bias", false) || reader.flag("mlp_bias", false))
    return "biases on the output and MLP matrices are not supported";
  if (const float rotated = reader.real("partial_rotary_factor", 1); rotated != 1)
    return fmt::format("rotating {} of the head dimensions is not supported", rotated);
  if (reader.flag("use_bidirectional_attention", false))
    return "attention in both directions is not supported";
  return {};
}

constexpr std::pair<std::string_view, std::string_view> kModelNames[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

constexpr std::pair<std::string_view, std::string_view> kLayerNames[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

}  // namespace

Result<ModelConfig> read_hf_config(const json& object, const std::string& where) {
  ConfigReader reader(object, where);
  ModelConfig config;
  config.architecture = printable(reader.text("model_type", ""));
  const Defaults& defaults = defaults_of(config.architecture);
  const bool known = defaults.model_type == config.architecture;
  config.family = known ? defaults.family : Family::kUnknown;
  read_sizes(reader, defaults, config);
  read_activation(reader, config);
  read_attention(reader, config);
  SUTURE_RETURN_IF_ERROR(read_ropes(reader, defaults, where, config));
  read_layer_rules(reader, defaults, config);
  const bool gemma = is_gemma(config.family);
  if (gemma) config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  config.norm_offset = gemma ? 1 : 0;
  config.qkv_bias = config.family == Family::kQwen2;
  config.qk_norm = config.family == Family::kQwen3 || config.family == Family::kGemma3;
  config.post_norms = config.family == Family::kGemma2 || config.family == Family::kGemma3;
  config.fused_qkv = config.fused_gate_up = config.family == Family::kPhi3;
  config.tied_embeddings = reader.flag("tie_word_embeddings", gemma);
  if (const std::string reason = unsupported_feature(reader, config); !reason.empty())
    config.unsupported = reason;
  SUTURE_RETURN_IF_ERROR(reader.status());
  return config;
}

std::string canonical_tensor_name(std::string_view name, bool post_norms) {
  for (const auto& [stored, canonical] : kModelNames) {
    if (stored == name) return std::string(canonical);
  }
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return std::string(name);
  const std::string_view rest = name.substr(kPrefix.size());
  const size_t layer_end = rest.find('.');
  const size_t kind_begin = rest.rfind('.');  // "weight" or "bias"
  if (layer_end == kind_begin) return std::string(name);
  const std::string_view part = rest.substr(layer_end + 1, kind_begin - layer_end - 1);
  const auto canonical = [&](std::string_view own) {
    return fmt::format("blk.{}.{}{}", rest.substr(0, layer_end), own, rest.substr(kind_begin));
  };
  if (part == "post_attention_layernorm")
    return canonical(post_norms ? "post_attention_norm" : "ffn_norm");
  for (const auto& [stored, own] : kLayerNames) {
    if (stored == part) return canonical(own);
  }
  return std::string(name);
}

}  // namespace suture
