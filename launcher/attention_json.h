// Where a master looked, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "actors/attention_shares.h"
#include "base/error.h"

namespace suture {

// "tokens", "models", and of all their entries and of each of "keywords" (with its "keyword"):
// "layers", [layer][model], and "mean", [model].
nlohmann::json to_json(const AttentionShares& shares);
// Throws what nlohmann::json throws, and std::out_of_range where a share is missing.
AttentionShares attention_from_json(const nlohmann::json& json);

}  // namespace suture
