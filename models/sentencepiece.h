// SentencePiece's byte pair encoding (Kudo and Richardson, 2018): pieces have scores, and of all
// neighbours that form a piece the best piece is formed first.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "models/vocabulary.h"

namespace suture {

// How SentencePiece writes a space: U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

std::string spaces_to_marks(std::string_view text);
std::string marks_to_spaces(std::string_view text);

// Pieces that a text may be merged to. Control tokens are none, so that text cannot forge them.
bool is_mergeable(TokenKind kind);

class SentencePieceEncoder {
 public:
  // kCorrupt: scores that cannot be compared. The encoder refers to the vocabulary's pieces.
  static Result<SentencePieceEncoder> create(const Vocabulary& vocabulary);

  // Appends the ids of a text with its spaces already marked; of equally good pairs the leftmost
  // goes first. n log n in the length of the text. Characters that are no piece become their bytes,
  // or the unknown token where the vocabulary has no bytes.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;

 private:
  SentencePieceEncoder() = default;
  int32_t id_of(std::string_view text) const;
  void append_bytes(std::string_view text, std::vector<int32_t>& ids) const;

  std::unordered_map<std::string_view, int32_t> ids_;
  size_t longest_ = 0;                   // bytes of the longest piece
  std::vector<float> scores_;            // [vocab]
  std::array<int32_t, 256> byte_ids_{};  // -1 = none
  int32_t unknown_id_ = -1;
};

}  // namespace suture
