#include "models/sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "models/bpe.h"
#include "models/symbol_row.h"
#include "models/unicode.h"

namespace suture {
namespace {

constexpr int32_t kNoToken = -1;

}  // namespace

std::string spaces_to_marks(std::string_view text) {
  std::string marked;
  for (char c : text) {
    if (c == ' ')
      marked += kSpaceMark;
    else
      marked.push_back(c);
  }
  return marked;
}

std::string marks_to_spaces(std::string_view text) {
  std::string spaced;
  while (!text.empty()) {
    const bool mark = text.starts_with(kSpaceMark);
    spaced.push_back(mark ? ' ' : text.front());
    text.remove_prefix(mark ? kSpaceMark.size() : 1);
  }
  return spaced;
}

bool is_mergeable(TokenKind kind) {
  return kind == TokenKind::kNormal || kind == TokenKind::kUserDefined;
}

Result<SentencePieceEncoder> SentencePieceEncoder::create(const Vocabulary& vocabulary) {
  SentencePieceEncoder encoder;
  encoder.scores_ = vocabulary.scores;
  encoder.byte_ids_.fill(kNoToken);
  encoder.unknown_id_ = vocabulary.unk_id.value_or(kNoToken);
  std::unordered_map<std::string_view, int32_t> byte_names;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const std::string& piece = vocabulary.pieces[id];
    if (!std::isfinite(vocabulary.scores[id]))
      return fail(ErrorCode::kCorrupt,
                  fmt::format("the score of token {} is {}, expected a finite number", id,
                              vocabulary.scores[id]),
                  "tokenizer.ggml.scores");
    if (vocabulary.kinds[id] == TokenKind::kByte)
      byte_names.try_emplace(piece, static_cast<int32_t>(id));
    if (!is_mergeable(vocabulary.kinds[id])) continue;
    encoder.ids_.try_emplace(piece, static_cast<int32_t>(id));
    encoder.longest_ = std::max(encoder.longest_, piece.size());
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto found = byte_names.find(byte_token_name(static_cast<uint8_t>(byte)));
    if (found != byte_names.end()) encoder.byte_ids_[byte] = found->second;
  }
  return encoder;
}

int32_t SentencePieceEncoder::id_of(std::string_view text) const {
  if (text.size() > longest_) return kNoToken;
  const auto found = ids_.find(text);
  return found == ids_.end() ? kNoToken : found->second;
}

void SentencePieceEncoder::append_bytes(std::string_view text, std::vector<int32_t>& ids) const {
  bool unknown = false;
  for (char byte : text) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    if (id != kNoToken) ids.push_back(id);
    unknown |= id == kNoToken;
  }
  if (unknown && unknown_id_ != kNoToken) ids.push_back(unknown_id_);
}

void SentencePieceEncoder::encode(std::string_view text, std::vector<int32_t>& ids) const {
  SymbolRow row(text.size());
  for (size_t done = 0; done < text.size();) {
    const size_t length = first_character(text.substr(done)).bytes;
    row.append(id_of(text.substr(done, length)), length);
    done += length;
  }
  const auto merge_of = [&](int32_t, int32_t, size_t begin,
                            size_t end) -> std::optional<SymbolMerge<float>> {
    const int32_t id = id_of(text.substr(begin, end - begin));
    if (id == kNoToken) return std::nullopt;
    return SymbolMerge<float>{-scores_[static_cast<size_t>(id)], id};
  };
  row.merge<float>(merge_of);
  row.for_each([&](int32_t symbol, size_t begin, size_t end) {
    if (symbol == kNoToken)
      append_bytes(text.substr(begin, end - begin), ids);
    else
      ids.push_back(symbol);
  });
}

}  // namespace suture
