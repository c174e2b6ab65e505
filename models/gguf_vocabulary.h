// The tokenizer that a GGUF file carries.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "models/gguf.h"
#include "models/vocabulary.h"

namespace suture {

// For an embedding of vocab_size rows; `where` names the file in errors. kNotFound if the file
// carries no tokenizer.
Result<Vocabulary> read_gguf_vocabulary(const GgufFile& file, int32_t vocab_size,
                                        const std::string& where);

}  // namespace suture
