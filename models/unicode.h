// UTF-8 that may be broken: where characters end, and what to do with bytes that are none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace suture {

// U+FFFD, which stands for bytes that are no character.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

enum class Utf8Status : uint8_t {
  kValid,
  kInvalid,     // `bytes` can never become a character
  kIncomplete,  // the text ends inside a character that could still become valid
};

struct Utf8Character {
  Utf8Status status = Utf8Status::kInvalid;
  size_t bytes = 0;         // length of the character, or of the longest start of one, at least 1
  uint32_t code_point = 0;  // only for kValid
};

// The first character of a text that is not empty (Unicode 15, table 3-7).
Utf8Character first_character(std::string_view text);

// The length of `text` without an unfinished character at its end.
size_t whole_characters(std::string_view text);

// `text` for messages: control characters and bytes that are no characters as \xNN, and what goes
// beyond `max_bytes` as "...".
std::string printable(std::string_view text, size_t max_bytes = 80);

void append_utf8(uint32_t code_point, std::string& out);

// Moves whole characters from the front of `text` to the end of `out`, invalid bytes as U+FFFD.
// What stays in `text` is empty or the start of an unfinished character.
void drain_valid_utf8(std::string& text, std::string& out);

}  // namespace suture
