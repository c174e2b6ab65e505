// Which tokens spell a word.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/tokenizer.h"

namespace suture {

// Tokens [begin, end) of a text.
struct TokenSpan {
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const TokenSpan&) const = default;
};

// The tokens that share a byte with any occurrence of the word, in rising order; no token is in two
// spans. Letters are compared as they are, and a word may be part of a longer one; control tokens
// have no letters, and no word goes across one. The word is not empty.
std::vector<TokenSpan> spans_of_word(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                     std::string_view word);

}  // namespace suture
