#include "models/unicode.h"

#include <fmt/format.h>

#include <algorithm>

namespace suture {
namespace {

struct LeadByte {
  size_t length = 0;          // 0 = cannot start a character
  uint8_t second_min = 0x80;  // stricter for the second byte: no overlong forms, no surrogates,
  uint8_t second_max = 0xBF;  // nothing above U+10FFFF
  uint8_t payload_mask = 0;
};

LeadByte classify_lead(uint8_t byte) {
  if (byte < 0x80) return {1, 0x80, 0xBF, 0x7F};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {2, 0x80, 0xBF, 0x1F};
  if (byte == 0xE0) return {3, 0xA0, 0xBF, 0x0F};
  if (byte == 0xED) return {3, 0x80, 0x9F, 0x0F};
  if (byte < 0xF0) return {3, 0x80, 0xBF, 0x0F};
  if (byte == 0xF0) return {4, 0x90, 0xBF, 0x07};
  if (byte < 0xF4) return {4, 0x80, 0xBF, 0x07};
  if (byte == 0xF4) return {4, 0x80, 0x8F, 0x07};
  return {};
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  const auto byte_at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const LeadByte lead = classify_lead(byte_at(0));
  if (lead.length == 0) return {Utf8Status::kInvalid, 1, 0};
  uint32_t code_point = byte_at(0) & lead.payload_mask;
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8Status::kIncomplete, i, 0};
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte_at(i) < min || byte_at(i) > max) return {Utf8Status::kInvalid, i, 0};
    code_point = code_point << 6 | (byte_at(i) & 0x3Fu);
  }
  return {Utf8Status::kValid, lead.length, code_point};
}

size_t whole_characters(std::string_view text) {
  // A character has four bytes at most, so an unfinished one starts within the last three.
  for (size_t tail = std::min<size_t>(3, text.size()); tail > 0; --tail) {
    const Utf8Character last = first_character(text.substr(text.size() - tail));
    if (last.status == Utf8Status::kIncomplete && last.bytes == tail) return text.size() - tail;
  }
  return text.size();
}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    const Utf8Character character = first_character(text);
    const uint32_t code = character.code_point;
    const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
    if (character.status == Utf8Status::kValid && !control) {
      out += text.substr(0, character.bytes);
    } else {
      for (const char byte : text.substr(0, character.bytes))
        out += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    }
    text.remove_prefix(character.bytes);
  }
  return out;
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | (code_point >> shift & 0x3F)));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code_point >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

void drain_valid_utf8(std::string& text, std::string& out) {
  size_t done = 0;
  while (done < text.size()) {
    const std::string_view rest = std::string_view(text).substr(done);
    const Utf8Character character = first_character(rest);
    if (character.status == Utf8Status::kIncomplete) break;
    out += character.status == Utf8Status::kValid ? rest.substr(0, character.bytes)
                                                  : kReplacementCharacter;
    done += character.bytes;
  }
  text.erase(0, done);
}

}  // namespace suture
