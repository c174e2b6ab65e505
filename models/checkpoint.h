// Opens a model of either kind: a .gguf file (or any part of a split one), or a folder with
// config.json and safetensors.
// Everything read is checked against the file's size; tensor data stays in the mapping.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/model_config.h"
#include "models/tensor_info.h"
#include "models/vocabulary.h"

namespace suture {

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // kNotFound, kIo, kCorrupt, kUnsupported (a format this build cannot read). A well-formed file of
  // an architecture or tensor type that this build cannot run opens all the same, to be inspected:
  // see ModelConfig::unsupported and TensorInfo::unsupported_type.
  static Result<std::unique_ptr<Checkpoint>> open(const std::filesystem::path& path);

  virtual const std::filesystem::path& path() const = 0;  // as given to open()
  // The files that hold the tensors: one, or the parts of a split model in their order.
  virtual const std::vector<std::filesystem::path>& files() const = 0;
  virtual const ModelConfig& config() const = 0;
  virtual const TensorInfo* find(std::string_view canonical_name) const = 0;
  virtual std::vector<const TensorInfo*> tensors() const = 0;  // in file order
  // Pieces, merges, special ids and chat template; kNotFound if the file carries no tokenizer.
  virtual Result<Vocabulary> vocabulary() const = 0;
  // A hash of configuration, tensor names, types, shapes and sizes, and of 4 KiB at both ends of
  // each tensor's data: two models with the same fingerprint are taken for the same one, in however
  // many files they come.
  virtual std::string fingerprint() const;
  // Metadata for `inspect`, in file order, values printed.
  virtual std::vector<std::pair<std::string, std::string>> metadata() const = 0;
  virtual uint64_t file_bytes() const = 0;  // of all files()
};

}  // namespace suture
