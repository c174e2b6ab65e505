#include "kernels/rope_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace suture {
namespace {

constexpr std::array<std::pair<RopeScaling, std::string_view>, 6> kNames = {{
    {RopeScaling::kNone, "none"},
    {RopeScaling::kLinear, "linear"},
    {RopeScaling::kDynamic, "dynamic"},
    {RopeScaling::kYarn, "yarn"},
    {RopeScaling::kLlama3, "llama3"},
    {RopeScaling::kLongrope, "longrope"},
}};

constexpr int64_t kMaxPositions = int64_t{1} << 31;

tl::unexpected<Error> invalid(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "rope schedule");
}

bool has_limit(const RopeSchedule& s) {
  if (s.scaling == RopeScaling::kLlama3) return s.long_factors.empty();
  return s.scaling != RopeScaling::kNone && s.scaling != RopeScaling::kLinear;
}

Status validate_divisors(std::span<const float> divisors, std::string_view name, int32_t head_dim) {
  if (std::ssize(divisors) != head_dim / 2)
    return invalid(fmt::format("{} {} for {} frequencies", divisors.size(), name, head_dim / 2));
  for (const float divisor : divisors) {
    if (!(std::isfinite(divisor) && divisor > 0))
      return invalid(fmt::format("one of the {} is {}, expected above 0", name, divisor));
  }
  return {};
}

Status validate_kind(const RopeSchedule& s, int32_t head_dim) {
  switch (s.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kLinear: return {};
    case RopeScaling::kDynamic:
      if (head_dim > 2) return {};
      return invalid("dynamic scaling needs more than 2 head dimensions");
    case RopeScaling::kYarn:
      if (s.theta > 1 && s.beta_slow > 0 && s.beta_fast >= s.beta_slow &&
          std::isfinite(s.beta_fast))
        return {};
      return invalid(fmt::format("yarn with theta {}, beta_fast {} and beta_slow {}", s.theta,
                                 s.beta_fast, s.beta_slow));
    case RopeScaling::kLlama3:
      if (!s.long_factors.empty())
        return validate_divisors(s.long_factors, "rope factors", head_dim);
      if (s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor &&
          std::isfinite(s.high_freq_factor))
        return {};
      return invalid(fmt::format("llama3 with low_freq_factor {} and high_freq_factor {}",
                                 s.low_freq_factor, s.high_freq_factor));
    case RopeScaling::kLongrope:
      SUTURE_RETURN_IF_ERROR(validate_divisors(s.short_factors, "short factors", head_dim));
      return validate_divisors(s.long_factors, "long factors", head_dim);
  }
  return invalid(fmt::format("unknown rope scaling {}", static_cast<int>(s.scaling)));
}

// theta^(-2i / head_dim).
double plain_frequency(double theta, int32_t head_dim, size_t i) {
  return std::pow(theta, -2.0 * static_cast<double>(i) / head_dim);
}

// theta * (factor * length / limit - (factor - 1))^(d / (d - 2)) beyond the limit.
double dynamic_theta(const RopeSchedule& s, int32_t head_dim, int64_t length) {
  const double ratio =
      s.factor * static_cast<double>(length) / static_cast<double>(s.original_positions);
  return s.theta * std::pow(ratio - (s.factor - 1.0), head_dim / (head_dim - 2.0));
}

// YaRN section 3.2: dimensions that turn more than beta_fast times within the limit stay as they
// are, those below beta_slow turns are divided, a ramp lies between. The bounds of the ramp are
// rounded outwards, as in the authors' code.
double yarn_scale(const RopeSchedule& s, int32_t head_dim, size_t i) {
  const auto dimension_of = [&](double turns) {
    const double limit = static_cast<double>(s.original_positions);
    return head_dim * std::log(limit / (turns * 2 * std::numbers::pi)) / (2 * std::log(s.theta));
  };
  const double low = std::max(std::floor(dimension_of(s.beta_fast)), 0.0);
  double high = std::min(std::ceil(dimension_of(s.beta_slow)), head_dim - 1.0);
  if (high == low) high += 0.001;
  const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  return (1 - ramp) + ramp / s.factor;
}

// Wavelengths above limit / low_freq_factor are stretched, those below limit / high_freq_factor
// kept, and blended between.
double llama3_scale(const RopeSchedule& s, double frequency) {
  const double turns =
      static_cast<double>(s.original_positions) * frequency / (2 * std::numbers::pi);
  const double kept =
      std::clamp((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0.0, 1.0);
  return kept + (1 - kept) / s.factor;
}

float attention_factor(const RopeSchedule& s) {
  if (s.attention_factor > 0) return s.attention_factor;
  if (s.factor <= 1) return 1;
  const double log_factor = std::log(static_cast<double>(s.factor));
  if (s.scaling == RopeScaling::kYarn) return static_cast<float>(0.1 * log_factor + 1);
  if (s.scaling == RopeScaling::kLongrope) {
    const double log_limit = std::log(static_cast<double>(s.original_positions));
    return static_cast<float>(std::sqrt(1 + log_factor / log_limit));
  }
  return 1;
}

}  // namespace

std::string_view rope_scaling_name(RopeScaling scaling) {
  for (const auto& [known, name] : kNames) {
    if (known == scaling) return name;
  }
  return "unknown";
}

std::optional<RopeScaling> rope_scaling_of(std::string_view name) {
  if (name == "default") return RopeScaling::kNone;
  if (name == "su") return RopeScaling::kLongrope;
  for (const auto& [scaling, known] : kNames) {
    if (known == name) return scaling;
  }
  return std::nullopt;
}

std::string known_rope_scalings() {
  std::string names;
  for (const auto& [scaling, name] : kNames) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

Status validate(const RopeSchedule& s, int32_t head_dim) {
  if (head_dim < 2 || head_dim % 2 != 0) return invalid(fmt::format("head dim {}", head_dim));
  if (!(s.theta >= 1 && std::isfinite(s.theta)))
    return invalid(fmt::format("rope theta is {}, expected at least 1", s.theta));
  if (s.scaling != RopeScaling::kNone && !(s.factor >= 1 && std::isfinite(s.factor)))
    return invalid(fmt::format("rope factor is {}, expected at least 1", s.factor));
  const int64_t least = s.scaling == RopeScaling::kLongrope ? 2 : 1;
  if (has_limit(s) && (s.original_positions < least || s.original_positions > kMaxPositions))
    return invalid(fmt::format("the limit of rope scaling '{}' is {} positions, expected {} to {}",
                               rope_scaling_name(s.scaling), s.original_positions, least,
                               kMaxPositions));
  if (!(s.attention_factor >= 0 && std::isfinite(s.attention_factor)))
    return invalid(fmt::format("rope attention factor is {}", s.attention_factor));
  if (s.fixed_length < 0 || s.fixed_length > kMaxPositions)
    return invalid(fmt::format("fixed rope length {}", s.fixed_length));
  return validate_kind(s, head_dim);
}

int64_t rope_epoch(const RopeSchedule& schedule, int64_t length) {
  const int64_t counted = schedule.fixed_length > 0 ? schedule.fixed_length : length;
  if (counted <= schedule.original_positions) return 0;
  if (schedule.scaling == RopeScaling::kDynamic) return counted;
  if (schedule.scaling == RopeScaling::kLongrope) return schedule.original_positions + 1;
  return 0;
}

int64_t rope_epoch(std::span<const RopeSchedule> schedules, int64_t length) {
  int64_t epoch = 0;
  for (const RopeSchedule& schedule : schedules)
    epoch = std::max(epoch, rope_epoch(schedule, length));
  return epoch;
}

RopeTable rope_table(const RopeSchedule& schedule, int32_t head_dim, int64_t epoch) {
  RopeTable table;
  table.frequencies.resize(static_cast<size_t>(head_dim / 2));
  table.attention_factor = fill_rope_table(schedule, head_dim, epoch, table.frequencies);
  return table;
}

float fill_rope_table(const RopeSchedule& s, int32_t head_dim, int64_t epoch,
                      std::span<float> frequencies) {
  const int64_t length = rope_epoch(s, epoch);
  const bool grown = s.scaling == RopeScaling::kDynamic && length > 0;
  const double theta = grown ? dynamic_theta(s, head_dim, length) : s.theta;
  const auto& divisors = length > 0 ? s.long_factors : s.short_factors;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double frequency = plain_frequency(theta, head_dim, i);
    switch (s.scaling) {
      case RopeScaling::kNone:
      case RopeScaling::kDynamic: break;
      case RopeScaling::kLinear: frequency /= s.factor; break;
      case RopeScaling::kYarn: frequency *= yarn_scale(s, head_dim, i); break;
      case RopeScaling::kLlama3:
        if (s.long_factors.empty())
          frequency *= llama3_scale(s, frequency);
        else
          frequency /= s.long_factors[i];
        break;
      case RopeScaling::kLongrope: frequency /= divisors[i]; break;
    }
    frequencies[i] = static_cast<float>(frequency);
  }
  return attention_factor(s);
}

}  // namespace suture
