#include "models/hf_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/mapping.h"
#include "models/hf_config.h"
#include "models/hf_tokenizer.h"
#include "models/json_text.h"
#include "models/safetensors_shards.h"

namespace suture {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxConfigBytes = 1 << 20;

std::vector<TensorInfo> canonical_tensors(std::vector<TensorInfo> stored,
                                          const ModelConfig& config) {
  std::vector<TensorInfo> tensors;
  for (TensorInfo& tensor : stored) {
    // Old checkpoints store the frequencies, which follow from theta; tied ones may repeat the
    // table.
    if (tensor.name.ends_with(".rotary_emb.inv_freq")) continue;
    if (config.tied_embeddings && tensor.name == "lm_head.weight") continue;
    tensor.name = canonical_tensor_name(tensor.name, config.post_norms);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

class HfCheckpoint final : public Checkpoint {
 public:
  HfCheckpoint(std::filesystem::path path, json object, ModelConfig config,
               SafetensorsShards shards)
      : path_(std::move(path)),
        object_(std::move(object)),
        config_(std::move(config)),
        shards_(std::move(shards)),
        table_(std::move(shards_.tensors)) {}

  const std::filesystem::path& path() const override { return path_; }
  const std::vector<std::filesystem::path>& files() const override { return shards_.paths; }
  const ModelConfig& config() const override { return config_; }
  const TensorInfo* find(std::string_view name) const override { return table_.find(name); }
  std::vector<const TensorInfo*> tensors() const override { return table_.all(); }
  Result<Vocabulary> vocabulary() const override {
    return read_hf_vocabulary(path_, config_.vocab_size);
  }
  std::vector<std::pair<std::string, std::string>> metadata() const override {
    std::vector<std::pair<std::string, std::string>> lines;
    for (const auto& [key, value] : object_.items()) lines.emplace_back(key, value.dump());
    return lines;
  }
  uint64_t file_bytes() const override { return total_bytes(shards_.mappings); }

 private:
  std::filesystem::path path_;
  json object_;
  ModelConfig config_;
  SafetensorsShards shards_;
  TensorTable table_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_hf_folder(const std::filesystem::path& path) {
  const auto config_path = path / "config.json";
  std::error_code error;
  if (!std::filesystem::exists(config_path, error))
    return fail(ErrorCode::kNotFound, "the folder has no config.json", path.string(),
                "a checkpoint folder holds config.json and model.safetensors, whole or in shards");
  SUTURE_ASSIGN_OR_RETURN(json object, read_json_object(config_path, kMaxConfigBytes));
  SUTURE_ASSIGN_OR_RETURN(ModelConfig config, read_hf_config(object, config_path.string()));
  SUTURE_ASSIGN_OR_RETURN(SafetensorsShards shards, open_safetensors_shards(path));
  shards.tensors = canonical_tensors(std::move(shards.tensors), config);
  config.kv_dtype = all_f32(shards.tensors) ? DType::kF32 : DType::kF16;
  if (config.unsupported.empty())
    SUTURE_RETURN_IF_ERROR(check_runnable(config, config_path.string()));
  return std::make_unique<HfCheckpoint>(path, std::move(object), std::move(config),
                                        std::move(shards));
}

}  // namespace suture
