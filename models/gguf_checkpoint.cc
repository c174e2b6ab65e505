#include "models/gguf_checkpoint.h"

#include <string>
#include <utility>

#include "base/mapping.h"
#include "models/gguf.h"
#include "models/gguf_config.h"
#include "models/gguf_vocabulary.h"

namespace suture {
namespace {

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
  SUTURE_ASSIGN_OR_RETURN(ModelConfig config,
                          read_gguf_config(file, file.tensors(), path.string()));
  return std::make_unique<GgufCheckpoint>(path, std::move(mapping), std::move(file),
                                          std::move(config));
}

}  // namespace suture
