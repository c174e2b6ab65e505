// Byte-level byte pair encoding (Sennrich et al., 2016; the byte alphabet of GPT-2).
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

// GPT-2 writes every byte as one printable character: itself where it is printable Latin-1, else
// U+0100 and up, so a space is U+0120.
std::string byte_to_alphabet(uint8_t byte);
// The bytes that a piece stands for. Characters outside the alphabet stand for themselves.
std::string alphabet_to_bytes(std::string_view piece);

class BytePairEncoder {
 public:
  // kCorrupt names the merge that is no pair. `vocabulary` is not needed afterwards.
  static Result<BytePairEncoder> create(const Vocabulary& vocabulary);

  // Appends the ids of one word, merging the best pair first, the leftmost among equals.
  // n log n in the length of the word. Bytes that the vocabulary has no token for are dropped.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  // Symbols are token ids; what merges go through without being a token has ids above those.
  using Symbol = int32_t;

  struct Merge {
    Symbol left;
    Symbol right;
    Symbol result;
  };

  BytePairEncoder() = default;
  static uint64_t pair_key(Symbol left, Symbol right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  const Merge* merge_of(Symbol left, Symbol right) const;
  void append_ids(Symbol symbol, std::string_view bytes, std::vector<int32_t>& ids) const;

  Symbol n_tokens_ = 0;
  std::array<Symbol, 256> byte_symbols_{};
  std::vector<Merge> merges_;                          // best first
  std::unordered_map<uint64_t, int32_t> merge_ranks_;  // pair_key -> index into merges_
};

}  // namespace suture
