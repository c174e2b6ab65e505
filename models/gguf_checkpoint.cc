#include "models/gguf_checkpoint.h"

#include <string>
#include <utility>

#include "base/mapping.h"
#include "models/gguf.h"
#include "models/gguf_config.h"
#include "models/gguf_parts.h"
#include "models/gguf_vocabulary.h"

namespace suture {
namespace {

class GgufCheckpoint final : public Checkpoint {
 public:
  GgufCheckpoint(std::filesystem::path path, GgufParts parts, ModelConfig config)
      : path_(std::move(path)),
        parts_(std::move(parts)),
        table_(parts_.file.tensors()),
        config_(std::move(config)) {}

  const std::filesystem::path& path() const override { return path_; }
  const std::vector<std::filesystem::path>& files() const override { return parts_.paths; }
  const ModelConfig& config() const override { return config_; }
  const TensorInfo* find(std::string_view name) const override { return table_.find(name); }
  std::vector<const TensorInfo*> tensors() const override { return table_.all(); }
  Result<Vocabulary> vocabulary() const override {
    return read_gguf_vocabulary(parts_.file, config_.vocab_size, path_.string());
  }
  std::vector<std::pair<std::string, std::string>> metadata() const override {
    std::vector<std::pair<std::string, std::string>> lines;
    for (const GgufEntry& entry : parts_.file.entries())
      lines.emplace_back(entry.key, entry.value.text());
    return lines;
  }
  uint64_t file_bytes() const override { return total_bytes(parts_.mappings); }

 private:
  std::filesystem::path path_;
  GgufParts parts_;
  TensorTable table_;
  ModelConfig config_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_gguf(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(GgufParts parts, open_gguf_parts(path));
  SUTURE_ASSIGN_OR_RETURN(ModelConfig config,
                          read_gguf_config(parts.file, parts.file.tensors(), path.string()));
  return std::make_unique<GgufCheckpoint>(path, std::move(parts), std::move(config));
}

}  // namespace suture
