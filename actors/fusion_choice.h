// How one slave's rows reach its master: by the mode that the topology asks for, or, where it
// leaves the choice open, by what fits; and whether that is possible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/launch_spec.h"
#include "base/error.h"
#include "fusion/compatibility.h"
#include "fusion/projector.h"

namespace suture {

// "concat", "project", "transfer", "text", "auto".
std::string_view fusion_mode_name(FusionMode mode);

// One model of the pair, as it will run.
struct PairSide {
  std::string name;
  ModelConfig config;
  const Tokenizer& tokenizer;
  const NormWeights* norms = nullptr;  // see CompatibilitySide
  std::string fingerprint;
};

struct FusionChoice {
  FusionMode mode = FusionMode::kConcat;      // never kAuto
  std::string reason;                         // of mode "auto": why this one; else empty
  std::vector<CompatibilityRow> rows;         // every condition of the mode, also those that hold;
                                              // words have none
  std::optional<ProjectorEvidence> evidence;  // of the projector, where one is used
  std::vector<std::string> overridden;        // what `force` passes over, for every reply
  Status verdict;                             // whether the mode is possible
};

// An unreadable projector is part of the verdict. `max_seq_len`: tokens of the longest text.
FusionChoice choose_fusion(const FusionSpec& spec, const PairSide& master, const PairSide& slave,
                           int64_t max_seq_len);

}  // namespace suture
