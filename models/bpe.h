// Byte pair encoding (Sennrich et al., 2016) by a list of merges.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "models/symbol_row.h"
#include "models/vocabulary.h"

namespace suture {

// GPT-2 writes every byte as one printable character: itself where it is printable Latin-1, else
// U+0100 and up, so a space is U+0120.
std::string byte_to_alphabet(uint8_t byte);
// The bytes that a piece stands for. Characters outside the alphabet stand for themselves.
std::string alphabet_to_bytes(std::string_view piece);

// "<0x0A>", the token of a byte where symbols are characters.
std::string byte_token_name(uint8_t byte);

// What a word is made of before anything is merged.
enum class BpeAlphabet : uint8_t {
  kBytes,       // written in the byte alphabet of GPT-2
  kCharacters,  // of UTF-8; those that are no token fall back to the tokens of their bytes
};

class BytePairEncoder {
 public:
  // kCorrupt names the merge that is no pair. `vocabulary` is not needed afterwards.
  static Result<BytePairEncoder> create(const Vocabulary& vocabulary,
                                        BpeAlphabet alphabet = BpeAlphabet::kBytes);

  // Appends the ids of one word, merging the best pair first, the leftmost among equals.
  // n log n in the length of the word. Bytes that the vocabulary has no token for are dropped.
  void encode(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  // Symbols are token ids; what merges go through without being a token has ids above those.
  using Symbol = int32_t;

  BytePairEncoder() = default;
  static uint64_t pair_key(Symbol left, Symbol right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  std::optional<SymbolMerge<int32_t>> merge_of(Symbol left, Symbol right) const;
  void start(std::string_view word, SymbolRow& row) const;
  void append_ids(Symbol symbol, std::string_view bytes, std::vector<int32_t>& ids) const;

  BpeAlphabet alphabet_ = BpeAlphabet::kBytes;
  Symbol n_tokens_ = 0;
  std::array<Symbol, 256> byte_symbols_{};
  std::unordered_map<uint32_t, Symbol> character_symbols_;     // of kCharacters
  std::unordered_map<uint64_t, SymbolMerge<int32_t>> merges_;  // pair_key -> rank, result
  std::unordered_map<std::string, Symbol> whole_words_;        // bytes -> token
};

}  // namespace suture
