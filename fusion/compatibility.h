// Whether a slave's K/V can stand in a master's attention: every condition with both values, so
// that a pair that does not fit is refused before anything is loaded, with the reason.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fusion/layer_map.h"
#include "fusion/merge_plan.h"
#include "models/model_config.h"
#include "models/norm_weights.h"
#include "models/tokenizer.h"

namespace suture {

struct CompatibilityRow {
  enum class Verdict : uint8_t {
    kOk,
    kConverted,  // the values differ, and the slave's K/V are converted on the way
    kRefused,
  };

  std::string condition;  // "kv heads"
  std::string master_value;
  std::string slave_value;
  Verdict verdict = Verdict::kOk;
  std::string remedy;  // how it is converted, or what to do; empty when the verdict is kOk
};

std::string_view verdict_name(CompatibilityRow::Verdict verdict);

// One model as it is compared.
struct CompatibilitySide {
  const ModelConfig& config;
  const Tokenizer& tokenizer;
  const NormWeights* norms = nullptr;  // nullptr: norm weights are not compared
};

struct CompatibilityRules {
  SlavePosition position = SlavePosition::kAligned;
  LayerMapSpec layer_map = {};
  bool master_norms = false;  // the slave runs with the master's norm weights
};

// For mode "concat". All conditions are listed, also those that hold.
std::vector<CompatibilityRow> check_compatibility(const CompatibilitySide& master,
                                                  const CompatibilitySide& slave,
                                                  const CompatibilityRules& rules);

// For mode "transfer" without a projector: K/V that stand in place of the master's are its own.
std::vector<CompatibilityRow> check_identity(const std::string& master_fingerprint,
                                             const std::string& slave_fingerprint);
// For a slave whose K/V a projector maps, which is checked by itself: what it makes up for.
std::vector<CompatibilityRow> list_projected(const CompatibilitySide& master,
                                             const CompatibilitySide& slave);

// kIncompatible with all refused rows in one message; nothing if there are none.
Status require_compatible(std::span<const CompatibilityRow> rows, std::string_view master_name,
                          std::string_view slave_name);

}  // namespace suture
