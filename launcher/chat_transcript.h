// A conversation as a file: what /save writes and /load reads.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "actors/launch.h"
#include "base/error.h"

namespace suture {

inline constexpr size_t kMaxTranscriptBytes = 16 << 20;

// {"suture_chat": 1, "turns": [{"question": TEXT, "answer": TEXT}, ...]}
nlohmann::json transcript_json(const std::vector<ChatTurn>& turns);

// The file belongs to this user alone (0600), and is there whole or as it was before.
Status save_transcript(const std::filesystem::path& path, const std::vector<ChatTurn>& turns);

// kNotFound, or kInvalidArgument that names the field, its value and what was expected.
Result<std::vector<ChatTurn>> load_transcript(const std::filesystem::path& path);
Result<std::vector<ChatTurn>> parse_transcript(std::string_view text, const std::string& where);

}  // namespace suture
