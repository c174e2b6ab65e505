// JSON out of files that nobody vouches for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace suture {

// kCorrupt for malformed text, for a name that an object holds twice, and for values nested deeper
// than any known file has them: printing and copying recurse. `where` names the file.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& where);

// A file that holds one object, of at most `max_bytes`.
Result<nlohmann::json> read_json_object(const std::filesystem::path& path, uint64_t max_bytes);

// The value for messages, not longer than a line.
std::string json_text(const nlohmann::json& value);

}  // namespace suture
