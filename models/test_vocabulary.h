// Small vocabularies for the tests of tokenizers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/vocabulary.h"

namespace suture {

// A byte-level vocabulary: ids 0 to 255 are the bytes; then one token for each merge "left right"
// (in the byte alphabet) in order, then `extra`.
Vocabulary make_byte_vocabulary(const std::vector<std::string>& merges,
                                const std::vector<std::pair<std::string, TokenKind>>& extra = {});

// The same with the tokens of the ChatML format, whose end of a turn is the end token.
Vocabulary make_chat_vocabulary(const std::vector<std::string>& merges);

}  // namespace suture
