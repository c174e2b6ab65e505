// A launch's snapshot as JSON: what the attach socket carries to `suture top`.
#pragma once

#include <nlohmann/json.hpp>

#include "actors/launch_snapshot.h"
#include "base/error.h"

namespace suture {

nlohmann::json to_json(const LaunchSnapshot& snapshot);

// From another process: kCorrupt names the field that is missing or of the wrong type.
Result<LaunchSnapshot> snapshot_from_json(const nlohmann::json& json);

}  // namespace suture
