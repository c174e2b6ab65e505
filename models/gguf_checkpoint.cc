#include "models/gguf_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/mapping.h"
#include "models/gguf.h"
#include "models/gguf_vocabulary.h"

namespace suture {
namespace {

// Metadata under the architecture's own prefix. A missing or ill-typed number is 0, which
// check_runnable() refuses by name where the number is needed.
class ArchitectureKeys {
 public:
  ArchitectureKeys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(architecture) {}

  const GgufValue* find(std::string_view key) const {
    return file_.find(fmt::format("{}.{}", prefix_, key));
  }
  int32_t integer(std::string_view key, int32_t fallback = 0) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return fallback;
    const auto number = value->as_unsigned();
    return number && *number <= INT32_MAX ? static_cast<int32_t>(*number) : 0;
  }
  float real(std::string_view key, float fallback = 0) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return fallback;
    return static_cast<float>(value->as_float().value_or(0));
  }
  std::string text(std::string_view key) const {
    const GgufValue* value = find(key);
    return std::string(value == nullptr ? "" : value->as_string().value_or(""));
  }

 private:
  const GgufFile& file_;
  std::string_view prefix_;
};

bool has_tensor(const GgufFile& file, std::string_view name) {
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [&](const TensorInfo& tensor) { return tensor.name == name; });
}

int32_t vocab_size_of(const GgufFile& file, const ArchitectureKeys& keys) {
  if (keys.find("vocab_size") != nullptr) return keys.integer("vocab_size");
  const GgufValue* tokens = file.find("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->count > INT32_MAX) return 0;
  return static_cast<int32_t>(tokens->count);
}

// What the file asks for and the forward pass does not do; empty if nothing.
std::string unsupported_feature(const GgufFile& file, const ArchitectureKeys& keys,
                                const ModelConfig& config) {
  if (config.family == Family::kUnknown)
    return fmt::format("architecture '{}' is not supported yet; known: {}", config.architecture,
                       known_families());
  const std::string scaling = keys.text("rope.scaling.type");
  if (!scaling.empty() && scaling != "none")
    return fmt::format("rope scaling '{}' is not supported yet", scaling);
  if (has_tensor(file, "rope_freqs.weight"))
    return "rope scaling by factors of the file ('llama3') is not supported yet";
  if (keys.integer("expert_count") > 0) return "mixtures of experts are not supported yet";
  if (keys.integer("rope.dimension_count", config.head_dim) != config.head_dim)
    return fmt::format("rotating {} of {} head dimensions is not supported yet",
                       keys.integer("rope.dimension_count"), config.head_dim);
  if (keys.integer("attention.value_length", config.head_dim) != config.head_dim)
    return fmt::format("value heads of {} beside key heads of {} are not supported yet",
                       keys.integer("attention.value_length"), config.head_dim);
  if (keys.integer("attention.sliding_window") > 0)
    return "sliding-window attention is not supported yet";
  return {};
}

Result<ModelConfig> read_config(const GgufFile& file, const std::string& where) {
  const GgufValue* architecture = file.find("general.architecture");
  if (architecture == nullptr || !architecture->as_string())
    return fail(ErrorCode::kCorrupt, "metadata key 'general.architecture' is missing", where);
  ModelConfig config;
  config.architecture = *architecture->as_string();
  config.family = family_of(config.architecture);
  const ArchitectureKeys keys(file, config.architecture);
  config.n_layers = keys.integer("block_count");
  config.n_heads = keys.integer("attention.head_count");
  config.n_kv_heads = keys.integer("attention.head_count_kv", config.n_heads);
  config.hidden_size = keys.integer("embedding_length");
  const int32_t even_share = config.n_heads > 0 && config.hidden_size % config.n_heads == 0
                                 ? config.hidden_size / config.n_heads
                                 : 0;
  config.head_dim = keys.integer("attention.key_length", even_share);
  config.ffn_size = keys.integer("feed_forward_length");
  config.vocab_size = vocab_size_of(file, keys);
  config.max_positions = keys.integer("context_length");
  config.norm_eps = keys.real("attention.layer_norm_rms_epsilon");
  config.rope_theta = keys.real("rope.freq_base", 10000);
  // Converters to GGUF permute the q and k rows of this family into neighbouring pairs.
  config.rope_pairing =
      config.family == Family::kLlama ? RopePairing::kNeighbours : RopePairing::kHalves;
  config.qkv_bias = has_tensor(file, "blk.0.attn_q.bias");
  config.tied_embeddings = !has_tensor(file, "output.weight");
  config.kv_dtype = all_f32(file.tensors()) ? DType::kF32 : DType::kF16;
  config.unsupported = unsupported_feature(file, keys, config);
  if (config.unsupported.empty()) SUTURE_RETURN_IF_ERROR(check_runnable(config, where));
  return config;
}

class GgufCheckpoint final : public Checkpoint {
 public:
  GgufCheckpoint(std::filesystem::path path, Mapping mapping, GgufFile file, ModelConfig config)
      : path_(std::move(path)),
        mapping_(std::move(mapping)),
        file_(std::move(file)),
        table_(file_.tensors()),
        config_(std::move(config)) {}

  const std::filesystem::path& path() const override { return path_; }
  const ModelConfig& config() const override { return config_; }
  const TensorInfo* find(std::string_view name) const override { return table_.find(name); }
  std::vector<const TensorInfo*> tensors() const override { return table_.all(); }
  Result<Vocabulary> vocabulary() const override {
    return read_gguf_vocabulary(file_, config_.vocab_size, path_.string());
  }
  std::vector<std::pair<std::string, std::string>> metadata() const override {
    std::vector<std::pair<std::string, std::string>> lines;
    for (const GgufEntry& entry : file_.entries())
      lines.emplace_back(entry.key, entry.value.text());
    return lines;
  }
  uint64_t file_bytes() const override { return mapping_.size(); }

 private:
  std::filesystem::path path_;
  Mapping mapping_;
  GgufFile file_;
  TensorTable table_;
  ModelConfig config_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_gguf(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::file(path));
  SUTURE_ASSIGN_OR_RETURN(GgufFile file, GgufFile::parse(mapping.bytes(), path.string()));
  SUTURE_ASSIGN_OR_RETURN(ModelConfig config, read_config(file, path.string()));
  return std::make_unique<GgufCheckpoint>(path, std::move(mapping), std::move(file),
                                          std::move(config));
}

}  // namespace suture
