// The tokenizer that GGUF calls "llama": SentencePiece's merging by scores, or by a list of merges
// where a tokenizer.json has one; what is no token falls back to bytes.
#pragma once

#include <memory>

#include "base/error.h"
#include "models/tokenizer.h"

namespace suture {

// The part of Tokenizer::create for vocabularies whose model is "llama". Sizes and ids are checked.
Result<std::unique_ptr<Tokenizer>> make_sentencepiece_tokenizer(Vocabulary vocabulary);

}  // namespace suture
