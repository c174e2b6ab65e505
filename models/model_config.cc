#include "models/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <utility>

namespace suture {
namespace {

constexpr std::array<std::pair<Family, std::string_view>, 7> kFamilies = {{
    {Family::kLlama, "llama"},
    {Family::kQwen2, "qwen2"},
    {Family::kQwen3, "qwen3"},
    {Family::kPhi3, "phi3"},
    {Family::kGemma, "gemma"},
    {Family::kGemma2, "gemma2"},
    {Family::kGemma3, "gemma3"},
}};

// Bounds far above any model there is, low enough that products of a few of them fit 64 bits.
struct Bound {
  std::string_view field;
  int64_t value;
  int64_t maximum;
};

Status check_bounds(const ModelConfig& config, const std::string& where) {
  const Bound bounds[] = {
      {"number of layers", config.n_layers, 1024},
      {"number of heads", config.n_heads, 1024},
      {"number of K/V heads", config.n_kv_heads, config.n_heads},
      {"head dimension", config.head_dim, 1024},
      {"hidden size", config.hidden_size, 1 << 17},
      {"MLP width", config.ffn_size, 1 << 20},
      {"vocabulary size", config.vocab_size, 1 << 24},
      {"context length", config.max_positions, 1 << 30},
  };
  for (const Bound& bound : bounds) {
    if (bound.value < 1 || bound.value > bound.maximum)
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("{} is {}, expected 1 to {}", bound.field, bound.value, bound.maximum),
          where);
  }
  return {};
}

// A number with the bounds within which it makes sense; `least` is allowed where `with_least` is.
struct RealBound {
  std::string_view field;
  float value;
  float least;
  bool with_least;
  float below;
};

Status check_reals(const ModelConfig& config, const std::string& where) {
  constexpr float kHuge = 1e9f;
  const RealBound bounds[] = {
      {"norm epsilon", config.norm_eps, 0, false, 1},
      {"embedding scale", config.embedding_scale, 0, false, kHuge},
      {"attention scale", config.attention_scale, 0, false, kHuge},
      {"soft cap of attention scores", config.score_cap, 0, true, kHuge},
      {"soft cap of logits", config.logit_cap, 0, true, kHuge},
  };
  for (const RealBound& bound : bounds) {
    const bool above =
        bound.value > bound.least || (bound.with_least && bound.value == bound.least);
    if (!above || !(bound.value < bound.below))
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{} is {}, expected {} {} and below {}", bound.field, bound.value,
                              bound.with_least ? "at least" : "above", bound.least, bound.below),
                  where);
  }
  return {};
}

Status check_rules(const ModelConfig& config, const std::string& where) {
  for (const RopeSchedule& schedule : config.ropes) {
    const Status sound = validate(schedule, config.head_dim);
    if (!sound) return fail(ErrorCode::kCorrupt, sound.error().what, where);
  }
  if (std::ssize(config.layer_rules) != config.n_layers)
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("{} kinds of layer for {} layers", config.layer_rules.size(), config.n_layers),
        where);
  for (const LayerRule& rule : config.layer_rules) {
    if (rule.window < 0 || rule.rope < 0 || rule.rope >= std::ssize(config.ropes))
      return fail(ErrorCode::kCorrupt,
                  fmt::format("a layer has window {} and rope {} of {}", rule.window, rule.rope,
                              config.ropes.size()),
                  where);
  }
  return {};
}

}  // namespace

std::string_view family_name(Family family) {
  for (const auto& [known, name] : kFamilies) {
    if (known == family) return name;
  }
  return "unknown";
}

Family family_of(std::string_view architecture) {
  for (const auto& [family, name] : kFamilies) {
    if (name == architecture) return family;
  }
  return Family::kUnknown;
}

std::string known_families() {
  std::string names;
  for (const auto& [family, name] : kFamilies) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

bool is_gemma(Family family) {
  return family == Family::kGemma || family == Family::kGemma2 || family == Family::kGemma3;
}

std::string_view activation_name(Activation activation) {
  return activation == Activation::kSilu ? "silu" : "gelu_tanh";
}

std::string describe_ropes(const ModelConfig& config) {
  std::string text;
  for (const RopeSchedule& s : config.ropes)
    text += fmt::format("{} {} {} {} {} {} {} {} {} [{}] [{}] {}\n", rope_scaling_name(s.scaling),
                        s.theta, s.factor, s.original_positions, s.attention_factor, s.beta_fast,
                        s.beta_slow, s.low_freq_factor, s.high_freq_factor,
                        fmt::join(s.short_factors, " "), fmt::join(s.long_factors, " "),
                        s.fixed_length);
  for (const LayerRule& rule : config.layer_rules)
    text += fmt::format("{} {}\n", rule.window, rule.rope);
  return text;
}

Status check_runnable(const ModelConfig& config, const std::string& where) {
  if (!config.unsupported.empty())
    return fail(ErrorCode::kUnsupported, config.unsupported, where,
                "choose another model: `suture models list` shows those known to run");
  SUTURE_RETURN_IF_ERROR(check_bounds(config, where));
  if (config.n_heads % config.n_kv_heads != 0)
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("{} heads cannot share {} K/V heads evenly", config.n_heads, config.n_kv_heads),
        where);
  // Scratch is as wide as these, while the file only holds their products with the hidden size.
  constexpr int64_t kMostOfHidden = 64;
  const Bound widths[] = {
      {"MLP width", config.ffn_size, kMostOfHidden * config.hidden_size},
      {"width of all heads", int64_t{config.n_heads} * config.head_dim,
       kMostOfHidden * config.hidden_size},
  };
  for (const Bound& width : widths) {
    if (width.value > width.maximum)
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{} is {}, expected at most {} times the hidden size of {}",
                              width.field, width.value, kMostOfHidden, config.hidden_size),
                  where);
  }
  if (config.head_dim % 2 != 0)
    return fail(ErrorCode::kCorrupt, fmt::format("head dimension {} is odd", config.head_dim),
                where);
  SUTURE_RETURN_IF_ERROR(check_reals(config, where));
  return check_rules(config, where);
}

std::vector<LayerRule> alternating_windows(int32_t n_layers, int32_t period, int64_t window) {
  std::vector<LayerRule> rules(static_cast<size_t>(n_layers));
  for (int32_t layer = 0; layer < n_layers; ++layer) {
    if ((layer + 1) % period != 0) rules[static_cast<size_t>(layer)].window = window;
  }
  return rules;
}

Status override_rope(const LoadOptions& options, ModelConfig& config) {
  if (!options.rope_scaling && options.rope_length == 0) return {};
  RopeSchedule& schedule = config.ropes.at(0);
  if (options.rope_scaling) {
    const float theta = schedule.theta;
    schedule = {};
    schedule.scaling = options.rope_scaling->scaling;
    schedule.theta = theta;
    schedule.factor = options.rope_scaling->factor;
    schedule.original_positions = options.rope_scaling->original_positions > 0
                                      ? options.rope_scaling->original_positions
                                      : config.max_positions;
  }
  schedule.fixed_length = options.rope_length;
  return validate(schedule, config.head_dim);
}

}  // namespace suture
