#include "launcher/model_options.h"

#include <spdlog/spdlog.h>

#include "launcher/download.h"

namespace suture {

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("model", options.model,
                  "Name from `suture models list`, .gguf file or checkpoint folder")
      ->required();
  command.add_option("--threads", options.threads, "Threads; 0 = one per core")
      ->check(CLI::Range(0, 1024));
  command.add_option("--kv-dtype", options.kv_dtype, "Type of K and V in the cache")
      ->check(CLI::IsMember({"f32", "f16"}));
}

Result<std::unique_ptr<LanguageModel>> load_model(const ModelOptions& options) {
  SUTURE_ASSIGN_OR_RETURN(const auto path, resolve_model(options.model));
  SUTURE_ASSIGN_OR_RETURN(auto model, LanguageModel::load(path, {.threads = options.threads}));
  spdlog::info("{} on {}", path.string(), model->device().name());
  return model;
}

Result<std::unique_ptr<KvCache>> make_cache(LanguageModel& model, const ModelOptions& options,
                                            int64_t tokens) {
  if (tokens > model.config().max_positions)
    spdlog::warn("{} tokens, more than the {} the model was trained for", tokens,
                 model.config().max_positions);
  KvShape shape = model.config().kv_shape();
  if (!options.kv_dtype.empty())
    shape.dtype = options.kv_dtype == "f32" ? DType::kF32 : DType::kF16;
  return make_heap_kv_cache(model.device(), shape, tokens);
}

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const Checkpoint& checkpoint) {
  SUTURE_ASSIGN_OR_RETURN(Vocabulary vocabulary, checkpoint.vocabulary());
  return Tokenizer::create(std::move(vocabulary));
}

}  // namespace suture
