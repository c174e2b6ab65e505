// Which tokens of two vocabularies have read the same text when they are done: rows of K/V that can
// be fitted to each other.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/tokenizer.h"

namespace suture {

struct TokenPair {
  int32_t source = 0;  // index of a token of each
  int32_t target = 0;

  bool operator==(const TokenPair&) const = default;
};

// What one model reads of a text: its beginning-of-text token, where it wants one, and the text's
// first tokens, `longest` in all.
std::vector<int32_t> reading_of(const Tokenizer& tokenizer, std::string_view text, size_t longest);

// Byte of the text after the last of each token, as far as the tokens spell the text: a vocabulary
// may lack bytes or rewrite them. Control tokens have none.
std::vector<int64_t> token_ends(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                std::string_view text);

// The pairs of tokens that end together, both behind the first `sink` tokens of their own.
std::vector<TokenPair> pair_by_ends(std::span<const int64_t> source_ends,
                                    std::span<const int64_t> target_ends, int32_t sink);

// For each target token the source token that ends with it or last before; none for the first ones,
// which end before any source token does.
std::vector<int32_t> last_ended(std::span<const int64_t> source_ends,
                                std::span<const int64_t> target_ends);

// One to one where the vocabularies are the same, by their ends elsewhere.
std::vector<TokenPair> pair_tokens(const Tokenizer& source, std::span<const int32_t> source_ids,
                                   const Tokenizer& target, std::span<const int32_t> target_ids,
                                   std::string_view text, int32_t sink);

}  // namespace suture
