// The tokenizer of a checkpoint folder: tokenizer.json and the files beside it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/error.h"
#include "models/vocabulary.h"

namespace suture {

// For an embedding of vocab_size rows. kNotFound if the folder has no tokenizer.json. Special ids
// come from tokenizer_config.json, special_tokens_map.json, generation_config.json and config.json,
// the chat template from chat_template.jinja or tokenizer_config.json.
Result<Vocabulary> read_hf_vocabulary(const std::filesystem::path& folder, int32_t vocab_size);

}  // namespace suture
