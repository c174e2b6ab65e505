#include "launcher/token_input.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "launcher/text_file.h"
#include "models/unicode.h"

namespace suture {
namespace {

constexpr std::string_view kSpaces = " \t\r\n\v\f";
constexpr size_t kMaxBytes = 16 * kMaxInputTokens;

// A word of the text, shortened for messages.
std::string_view shown(std::string_view word) { return word.substr(0, 40); }

Status add_id(int64_t id, int32_t vocab_size, const std::string& where, std::vector<int32_t>& ids) {
  if (id < 0 || id >= vocab_size)
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("id {} (entry {}) is outside the vocabulary of {}", id, ids.size(), vocab_size),
        where, fmt::format("ids are 0 to {}", vocab_size - 1));
  if (ids.size() == kMaxInputTokens)
    return fail(ErrorCode::kInvalidArgument, fmt::format("more than {} ids", kMaxInputTokens),
                where);
  ids.push_back(static_cast<int32_t>(id));
  return {};
}

Status parse_json(std::string_view text, int32_t vocab_size, const std::string& where,
                  std::vector<int32_t>& ids) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array())
    return fail(ErrorCode::kInvalidArgument, "is not a JSON array", where,
                "give [1, 2, 3] or the ids with spaces between them");
  for (const auto& item : json) {
    if (!item.is_number_integer())
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("entry {} is not an integer but {}", ids.size(), item.type_name()),
                  where);
    // Numbers above int64 come as unsigned; as ids they are out of range either way.
    const int64_t id = item.is_number_unsigned() && item.get<uint64_t>() > INT64_MAX
                           ? INT64_MAX
                           : item.get<int64_t>();
    SUTURE_RETURN_IF_ERROR(add_id(id, vocab_size, where, ids));
  }
  return {};
}

Status parse_words(std::string_view text, int32_t vocab_size, const std::string& where,
                   std::vector<int32_t>& ids) {
  for (size_t at = text.find_first_not_of(kSpaces); at != std::string_view::npos;
       at = text.find_first_not_of(kSpaces, at)) {
    const size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    int64_t id = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || rest != word.data() + word.size())
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("entry {} is not an id: '{}'", ids.size(), printable_piece(shown(word))),
          where, "give [1, 2, 3] or the ids with spaces between them");
    SUTURE_RETURN_IF_ERROR(add_id(id, vocab_size, where, ids));
    at = end;
  }
  return {};
}

}  // namespace

Result<std::vector<int32_t>> parse_token_ids(std::string_view text, int32_t vocab_size,
                                             const std::string& where) {
  std::vector<int32_t> ids;
  const size_t first = text.find_first_not_of(kSpaces);
  const bool is_json = first != std::string_view::npos && text[first] == '[';
  SUTURE_RETURN_IF_ERROR(is_json ? parse_json(text, vocab_size, where, ids)
                                 : parse_words(text, vocab_size, where, ids));
  if (ids.empty()) return fail(ErrorCode::kInvalidArgument, "holds no ids", where);
  return ids;
}

Result<std::vector<int32_t>> read_token_ids(const std::filesystem::path& path, int32_t vocab_size) {
  SUTURE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxBytes));
  return parse_token_ids(text, vocab_size, path == "-" ? "standard input" : path.string());
}

std::string printable_piece(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const Utf8Character character = first_character(piece);
    if (character.status == Utf8Status::kValid)
      text += piece.substr(0, character.bytes);
    else
      for (char byte : piece.substr(0, character.bytes))
        text += fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte));
    piece.remove_prefix(character.bytes);
  }
  return text;
}

}  // namespace suture
