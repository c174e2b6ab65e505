// Token ids as users hand them in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace suture {

inline constexpr size_t kMaxInputTokens = 1 << 20;

// A JSON array, or integers with white space between them. kInvalidArgument names the first entry
// that is not an id below `vocab_size`; no ids at all are an error too.
Result<std::vector<int32_t>> parse_token_ids(std::string_view text, int32_t vocab_size,
                                             const std::string& where);

// The same from a file; "-" is standard input.
Result<std::vector<int32_t>> read_token_ids(const std::filesystem::path& path, int32_t vocab_size);

// The bytes of a token as valid UTF-8; bytes that are none appear as <0xHH>.
std::string printable_piece(std::string_view piece);

}  // namespace suture
