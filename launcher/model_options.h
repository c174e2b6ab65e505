// The options of commands that run one model by itself.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/kv_cache.h"
#include "models/language_model.h"
#include "models/tokenizer.h"

namespace suture {

struct ModelOptions {
  std::string model;     // manifest name, .gguf or folder
  int threads = 0;       // 0 = one per core
  std::string kv_dtype;  // "f32", "f16"; empty = what the model uses when it runs
};

// MODEL, --threads and --kv-dtype.
void add_model_options(CLI::App& command, ModelOptions& options);

Result<std::unique_ptr<LanguageModel>> load_model(const ModelOptions& options);

// K/V for `tokens` tokens in the type that was asked for.
Result<std::unique_ptr<KvCache>> make_cache(LanguageModel& model, const ModelOptions& options,
                                            int64_t tokens);

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const Checkpoint& checkpoint);

}  // namespace suture
