// Reads the tokenizer.json of the model hub's tokenizers library: byte-level BPE, and BPE with byte
// fallback as SentencePiece models are converted to. All else is refused by name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"
#include "models/vocabulary.h"

namespace suture {

// Pieces, kinds, merges and rules, without what other files say (BOS, EOS, chat template). `where`
// names the file in errors.
// A normaliser to NFC is not applied, as GGUF files of the same models do not have it either.
Result<Vocabulary> parse_tokenizer_json(const nlohmann::json& root, const std::string& where);

}  // namespace suture
