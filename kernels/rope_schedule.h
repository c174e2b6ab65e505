// Which frequencies the rotary embedding uses at a given length of the sequence. Some rules change
// them as the sequence grows; rows already in a cache keep the rotation they were written with, so
// a cache remembers the epoch of each of its rows (models/kv_cache.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace suture {

enum class RopeScaling : uint8_t {
  kNone,      // Su et al., RoFormer, 2021
  kLinear,    // positions divided by a factor (Chen et al., position interpolation, 2023)
  kDynamic,   // a base that grows with the length beyond the limit ("NTK-aware", 2023)
  kYarn,      // Peng et al., YaRN, 2023
  kLlama3,    // low frequencies divided, high ones kept (Llama 3.1)
  kLongrope,  // Ding et al., LongRoPE, 2024: tables of divisors, one below the limit, one above
};

std::string_view rope_scaling_name(RopeScaling scaling);
// nullopt if this build has no rule of that name. Files also write "default" (none) and "su"
// (longrope).
std::optional<RopeScaling> rope_scaling_of(std::string_view name);
std::string known_rope_scalings();  // for messages

// One rule of rotation; layers with the same rule share it.
struct RopeSchedule {
  RopeScaling scaling = RopeScaling::kNone;
  float theta = 10000;
  float factor = 1;                     // for longrope: longest length / limit
  int64_t original_positions = 0;       // the limit the rule speaks of, positions
  float attention_factor = 0;           // 0 = what the kind prescribes
  float beta_fast = 32, beta_slow = 1;  // yarn: turns within the limit, kept above, divided below
  float low_freq_factor = 1;            // llama3
  float high_freq_factor = 4;           // llama3
  std::vector<float> short_factors;     // longrope: [head_dim / 2] divisors
  std::vector<float> long_factors;      // longrope; with llama3, divisors in place of its formula
  int64_t fixed_length = 0;             // every length counts as this one; 0 = off

  bool operator==(const RopeSchedule&) const = default;
};

// kInvalidArgument, naming the number, if no table can be made of the schedule.
Status validate(const RopeSchedule& schedule, int32_t head_dim);

struct RopeTable {
  std::vector<float> frequencies;  // [head_dim / 2] radians per position
  float attention_factor = 1;      // multiplies cos and sin
};

// Total lengths of the same epoch have the same table. 0 where the rule does not depend on the
// length or the length is within the limit; above it, dynamic: the length; longrope: the limit + 1.
// An epoch is itself a length of that epoch.
int64_t rope_epoch(const RopeSchedule& schedule, int64_t length);
// The one epoch in which all schedules have the tables of that length.
int64_t rope_epoch(std::span<const RopeSchedule> schedules, int64_t length);

RopeTable rope_table(const RopeSchedule& schedule, int32_t head_dim, int64_t epoch);
// The same into memory that the caller has, [head_dim / 2]; returns the attention factor.
float fill_rope_table(const RopeSchedule& schedule, int32_t head_dim, int64_t epoch,
                      std::span<float> frequencies);

}  // namespace suture
