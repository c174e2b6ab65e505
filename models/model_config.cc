#include "models/model_config.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace suture {
namespace {

constexpr std::array<std::pair<Family, std::string_view>, 2> kFamilies = {{
    {Family::kLlama, "llama"},
    {Family::kQwen2, "qwen2"},
}};

// Bounds far above any model there is, low enough that products of a few of them fit 64 bits.
struct Bound {
  std::string_view field;
  int64_t value;
  int64_t maximum;
};

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

Status check_runnable(const ModelConfig& config, const std::string& where) {
  if (!config.unsupported.empty())
    return fail(ErrorCode::kUnsupported, config.unsupported, where,
                "choose another model: `suture models list` shows those known to run");
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
  if (config.n_heads % config.n_kv_heads != 0)
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("{} heads cannot share {} K/V heads evenly", config.n_heads, config.n_kv_heads),
        where);
  if (config.head_dim % 2 != 0)
    return fail(ErrorCode::kCorrupt, fmt::format("head dimension {} is odd", config.head_dim),
                where);
  if (!(config.norm_eps > 0 && config.norm_eps < 1))
    return fail(ErrorCode::kCorrupt,
                fmt::format("norm epsilon is {}, expected above 0 and below 1", config.norm_eps),
                where);
  if (!(config.rope_theta >= 1 && std::isfinite(config.rope_theta)))
    return fail(ErrorCode::kCorrupt,
                fmt::format("rope theta is {}, expected at least 1", config.rope_theta), where);
  return {};
}

std::vector<float> rope_frequencies(const ModelConfig& config) {
  std::vector<float> frequencies(static_cast<size_t>(config.head_dim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / config.head_dim;
    frequencies[i] = static_cast<float>(std::pow(static_cast<double>(config.rope_theta), exponent));
  }
  return frequencies;
}

}  // namespace suture
