// Small models and their reference values for the tests of this folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapping.h"
#include "models/language_model.h"
#include "models/safetensors.h"
#include "models/test_gguf_builder.h"

namespace suture {

// A folder of tests/data/tiny: "llama", "gemma2".
std::filesystem::path tiny_folder(std::string_view name);
std::unique_ptr<LanguageModel> load_tiny(std::string_view name, int threads = 1);

// The reference values of such a folder.
class Golden {
 public:
  explicit Golden(std::string_view name, std::string_view file = "golden");
  std::vector<int32_t> ids(std::string_view tensor) const;
  std::vector<float> floats(std::string_view tensor) const;

 private:
  Mapping mapping_;
  std::optional<SafetensorsFile> file_;
};

// Metadata of a llama of one layer: hidden 8, 2 heads of 4, 1 K/V head, MLP of 12, 5 tokens.
GgufBuilder one_layer_metadata(std::string_view architecture = "llama");
struct TensorShape {
  std::string_view name;
  std::vector<uint64_t> dims;  // in GGUF's order
};
std::vector<TensorShape> one_layer_tensors();
// All of them, filled with numbers; without the one named `left_out`.
GgufBuilder one_layer_llama(std::string_view left_out = {});

// A file of the given bytes that is removed when the object goes.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::span<const std::byte> bytes, std::string_view extension = ".gguf");
  ~TemporaryFile();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::vector<float> to_host(LanguageModel& model, const float* device, int64_t n);

// Logits [ids][vocab] of a prompt, read into `cache` in one go.
std::vector<float> prompt_logits(LanguageModel& model, std::span<const int32_t> ids, KvCache& cache,
                                 const SequencePlan* plan = nullptr);

struct KvRows {
  std::vector<float> key;    // [n_kv_heads][entries][head_dim]
  std::vector<float> value;  // the same
};
KvRows read_rows(LanguageModel& model, KvCache& cache, int32_t layer);

float max_difference(std::span<const float> a, std::span<const float> b);

}  // namespace suture
