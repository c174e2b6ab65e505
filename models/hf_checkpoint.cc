#include "models/hf_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/mapping.h"
#include "models/safetensors.h"

namespace suture {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxConfigBytes = 1 << 20;

// Values of config.json with the defaults of the model hub's library; null counts as absent.
// A value of the wrong type is remembered as the error of the whole reading.
class ConfigReader {
 public:
  ConfigReader(const json& config, const std::string& where) : config_(config), where_(where) {}

  int32_t integer(const char* key, int32_t fallback) {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_number_unsigned() && value->get<uint64_t>() <= INT32_MAX)
      return value->get<int32_t>();
    return wrong(key, *value, "a whole number"), fallback;
  }
  float real(const char* key, float fallback) {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_number()) return value->get<float>();
    return wrong(key, *value, "a number"), fallback;
  }
  bool flag(const char* key, bool fallback) {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_boolean()) return value->get<bool>();
    return wrong(key, *value, "true or false"), fallback;
  }
  std::string text(const char* key, const char* fallback) {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_string()) return value->get<std::string>();
    return wrong(key, *value, "a string"), fallback;
  }
  const json* find(const char* key) const {
    const auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }
  Status status() const {
    if (!error_.empty()) return fail(ErrorCode::kCorrupt, error_, where_);
    return {};
  }

 private:
  void wrong(const char* key, const json& value, std::string_view expected) {
    if (error_.empty())
      error_ = fmt::format("'{}' is {}, expected {}", key, value.dump(), expected);
  }

  const json& config_;
  const std::string& where_;
  std::string error_;
};

// Files name the kind of scaling `rope_type` or, in older ones, `type`.
std::string rope_scaling_name(const json& scaling) {
  for (const char* key : {"rope_type", "type"}) {
    const auto found = scaling.find(key);
    if (found != scaling.end() && found->is_string()) return found->get<std::string>();
  }
  return scaling.is_object() ? "default" : scaling.dump();
}

bool has_sliding_layer(const json* layer_types) {
  return layer_types != nullptr && std::find(layer_types->begin(), layer_types->end(),
                                             "sliding_attention") != layer_types->end();
}

// What the file asks for and the forward pass does not do; empty if nothing.
std::string unsupported_feature(ConfigReader& reader, const ModelConfig& config) {
  if (config.family == Family::kUnknown)
    return fmt::format("architecture '{}' is not supported yet; known: {}", config.architecture,
                       known_families());
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* scaling = reader.find(key);
    if (scaling != nullptr && rope_scaling_name(*scaling) != "default")
      return fmt::format("rope scaling '{}' is not supported yet", rope_scaling_name(*scaling));
  }
  const std::string activation = reader.text("hidden_act", "silu");
  if (activation != "silu") return fmt::format("activation '{}' is not supported yet", activation);
  if (reader.flag("use_sliding_window", false) || has_sliding_layer(reader.find("layer_types")))
    return "sliding-window attention is not supported yet";
  if (reader.flag("attention_bias", false) || reader.flag("mlp_bias", false))
    return "biases on the output and MLP matrices are not supported yet";
  return {};
}

float rope_theta_of(ConfigReader& reader) {
  const json* parameters = reader.find("rope_parameters");
  if (parameters != nullptr && parameters->is_object()) {
    const auto theta = parameters->find("rope_theta");
    if (theta != parameters->end() && theta->is_number()) return theta->get<float>();
  }
  return reader.real("rope_theta", 10000);
}

Result<ModelConfig> read_config(const json& object, const std::string& where) {
  ConfigReader reader(object, where);
  ModelConfig config;
  config.architecture = reader.text("model_type", "");
  config.family = family_of(config.architecture);
  const bool qwen2 = config.family == Family::kQwen2;
  config.n_layers = reader.integer("num_hidden_layers", 32);
  config.n_heads = reader.integer("num_attention_heads", 32);
  config.n_kv_heads = reader.integer("num_key_value_heads", qwen2 ? 32 : config.n_heads);
  config.hidden_size = reader.integer("hidden_size", 4096);
  config.head_dim =
      reader.integer("head_dim", config.n_heads > 0 ? config.hidden_size / config.n_heads : 0);
  config.ffn_size = reader.integer("intermediate_size", qwen2 ? 22016 : 11008);
  config.vocab_size = reader.integer("vocab_size", qwen2 ? 151936 : 32000);
  config.max_positions = reader.integer("max_position_embeddings", qwen2 ? 32768 : 2048);
  config.norm_eps = reader.real("rms_norm_eps", 1e-6f);
  config.rope_theta = rope_theta_of(reader);
  config.rope_pairing = RopePairing::kHalves;
  config.qkv_bias = qwen2;
  config.tied_embeddings = reader.flag("tie_word_embeddings", false);
  config.unsupported = unsupported_feature(reader, config);
  SUTURE_RETURN_IF_ERROR(reader.status());
  return config;
}

constexpr std::pair<std::string_view, std::string_view> kModelNames[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

constexpr std::pair<std::string_view, std::string_view> kLayerNames[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

// "model.layers.3.mlp.up_proj.weight" is "blk.3.ffn_up.weight"; unknown names stay as they are.
std::string canonical_name(std::string_view name) {
  for (const auto& [stored, canonical] : kModelNames) {
    if (stored == name) return std::string(canonical);
  }
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return std::string(name);
  const std::string_view rest = name.substr(kPrefix.size());
  const size_t layer_end = rest.find('.');
  const size_t kind_begin = rest.rfind('.');  // "weight" or "bias"
  if (layer_end == kind_begin) return std::string(name);
  const std::string_view part = rest.substr(layer_end + 1, kind_begin - layer_end - 1);
  for (const auto& [stored, canonical] : kLayerNames) {
    if (stored == part)
      return fmt::format("blk.{}.{}{}", rest.substr(0, layer_end), canonical,
                         rest.substr(kind_begin));
  }
  return std::string(name);
}

std::vector<TensorInfo> canonical_tensors(const SafetensorsFile& file, bool tied) {
  std::vector<TensorInfo> tensors;
  for (TensorInfo tensor : file.tensors()) {
    // Old checkpoints store the frequencies, which follow from theta; tied ones may repeat the
    // table.
    if (tensor.name.ends_with(".rotary_emb.inv_freq")) continue;
    if (tied && tensor.name == "lm_head.weight") continue;
    tensor.name = canonical_name(tensor.name);
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
  SUTURE_ASSIGN_OR_RETURN(ModelConfig config, read_config(object, config_path.string()));
  SUTURE_ASSIGN_OR_RETURN(Mapping mapping, Mapping::file(tensors_path));
  SUTURE_ASSIGN_OR_RETURN(const auto file,
                          SafetensorsFile::parse(mapping.bytes(), tensors_path.string()));
  auto tensors = canonical_tensors(file, config.tied_embeddings);
  config.kv_dtype = all_f32(tensors) ? DType::kF32 : DType::kF16;
  if (config.unsupported.empty())
    SUTURE_RETURN_IF_ERROR(check_runnable(config, config_path.string()));
  return std::make_unique<HfCheckpoint>(path, std::move(object), std::move(config),
                                        std::move(mapping), std::move(tensors));
}

}  // namespace suture
