// The options of the command line that say how answers are drawn and when they end, shared by `run`
// and `chat`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch.h"

namespace suture {

// Unset: what the topology says.
struct SamplingFlags {
  std::optional<int64_t> max_tokens;
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int64_t> repetition_window;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;  // added to the topology's
  bool ignore_eos = false;
  std::optional<double> deadline_seconds;
};

// `flags` must outlive `command`.
void add_sampling_flags(CLI::App& command, SamplingFlags& flags);

// `base` with what the command line says instead.
AskOptions apply(const SamplingFlags& flags, AskOptions base);

// What the topology's [sampling] says.
AskOptions ask_defaults(const LaunchSpec& spec);

}  // namespace suture
