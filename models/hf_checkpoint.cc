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
#include "models/safetensors.h"

namespace suture {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxConfigBytes = 1 << 20;

std::vector<TensorInfo> canonical_tensors(const SafetensorsFile& file, const ModelConfig& config) {
  std::vector<TensorInfo> tensors;
  for (TensorInfo tensor : file.tensors()) {
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
  HfCheckpoint(std::filesystem::path path, json object, ModelConfig config, Mapping mapping,
               std::vector<TensorInfo> tensors)
      : path_(std::move(path)),
        object_(std::move(object)),
        config_(std::move(config)),
        mapping_(std::move(mapping)),
        table_(std::move(tensors)) {}

  const std::filesystem::path& path() const override { return path_; }
  const ModelConfig& config() const override { return config_; }
  const TensorInfo* find(std::string_view name) const override { return table_.find(name); }
  std::vector<const TensorInfo*> tensors() const override { return table_.all(); }
  Result<Vocabulary> vocabulary() const override {
    return fail(ErrorCode::kNotFound, "tokenizers of checkpoint folders are not supported yet",
                path_.string(), "use the model's .gguf file, or give token ids");
  }
  std::vector<std::pair<std::string, std::string>> metadata() const override {
    std::vector<std::pair<std::string, std::string>> lines;
    for (const auto& [key, value] : object_.items()) lines.emplace_back(key, value.dump());
    return lines;
  }
  uint64_t file_bytes() const override { return mapping_.size(); }

 private:
  std::filesystem::path path_;
  json object_;
  ModelConfig config_;
  Mapping mapping_;
  TensorTable table_;
};

Result<json> read_json(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(const Mapping mapping, Mapping::file(path));
  if (mapping.size() > kMaxConfigBytes)
    return fail(ErrorCode::kCorrupt,
                fmt::format("{} bytes are too many for a configuration", mapping.size()),
                path.string());
  const char* text = reinterpret_cast<const char*>(mapping.data());
  json object = json::parse(text, text + mapping.size(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return fail(ErrorCode::kCorrupt, "this is not a JSON object", path.string());
  return object;
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_hf_folder(const std::filesystem::path& path) {
  const auto config_path = path / "config.json";
  const auto tensors_path = path / "model.safetensors";
  for (const auto& needed : {config_path, tensors_path}) {
    std::error_code error;
    if (!std::filesystem::exists(needed, error))
      return fail(ErrorCode::kNotFound,
                  fmt::format("the folder has no {}", needed.filename().string()), path.string(),
                  "a checkpoint folder holds config.json and model.safetensors in one piece");
  }
  SUTURE_ASSIGN_OR_RETURN(json object, read_json(config_path));
  SUTURE_ASSIGN_OR_RETURN(ModelConfig config, read_hf_config(object, config_path.string()));
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::file(tensors_path));
  SUTURE_ASSIGN_OR_RETURN(const auto file,
                          SafetensorsFile::parse(mapping.bytes(), tensors_path.string()));
  auto tensors = canonical_tensors(file, config);
  config.kv_dtype = all_f32(tensors) ? DType::kF32 : DType::kF16;
  if (config.unsupported.empty())
    SUTURE_RETURN_IF_ERROR(check_runnable(config, config_path.string()));
  return std::make_unique<HfCheckpoint>(path, std::move(object), std::move(config),
                                        std::move(mapping), std::move(tensors));
}

}  // namespace suture
