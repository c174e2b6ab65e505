// The tokenizer that GGUF calls "gpt2": special tokens, pre-tokenizer, byte pair encoding.
#pragma once

#include <memory>

#include "base/error.h"
#include "models/tokenizer.h"

namespace suture {

// The part of Tokenizer::create for vocabularies whose model is "gpt2". Sizes and ids are checked.
Result<std::unique_ptr<Tokenizer>> make_byte_level_tokenizer(Vocabulary vocabulary);

}  // namespace suture
