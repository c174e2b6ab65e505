// Whether a slave's K/V can stand in a master's attention: every condition with both values, so
// that a pair that does not fit is refused before anything is loaded, with the reason.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/model_config.h"

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
  std::string remedy;  // empty when the verdict is kOk
};

std::string_view verdict_name(CompatibilityRow::Verdict verdict);

// For mode "concat" with layer_map "identity". The hashes are those of Tokenizer. All conditions
// are listed, also those that hold.
std::vector<CompatibilityRow> check_compatibility(const ModelConfig& master,
                                                  const std::string& master_vocabulary_hash,
                                                  const ModelConfig& slave,
                                                  const std::string& slave_vocabulary_hash);

// kIncompatible with all refused rows in one message; nothing if there are none.
Status require_compatible(std::span<const CompatibilityRow> rows, std::string_view master_name,
                          std::string_view slave_name);

}  // namespace suture
