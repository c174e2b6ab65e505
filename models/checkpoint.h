// Opens a model file of either kind: a .gguf file, or a folder with config.json and safetensors.
// Everything read is checked against the file's size; tensor data stays in the mapping.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/dtype.h"
#include "models/model_config.h"
#include "models/vocabulary.h"

namespace suture {

// One tensor as it lies in the file, row-major with the last dimension contiguous
// (GGUF's reversed dimensions are turned round on reading).
struct TensorInfo {
  std::string name;                  // canonical GGUF name: "blk.0.attn_q.weight"
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;        // [rows, cols] or [width]
  std::span<const std::byte> data;   // into the mapping that the Checkpoint owns
};

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // kNotFound, kIo, kCorrupt, kUnsupported (architecture or tensor type by name, with those known).
  static Result<std::unique_ptr<Checkpoint>> open(const std::filesystem::path& path);

  virtual const std::filesystem::path& path() const = 0;
  virtual const ModelConfig& config() const = 0;
  virtual const TensorInfo* find(std::string_view canonical_name) const = 0;
  virtual std::vector<const TensorInfo*> tensors() const = 0;  // in file order
  // Pieces, merges, special ids and chat template; kNotFound if the file carries no tokenizer.
  virtual Result<Vocabulary> vocabulary() const = 0;
  // A hash of configuration, tensor names, types, shapes and sizes, and of 4 KiB at both ends of
  // each tensor's data: two files with the same fingerprint are taken for the same model.
  virtual std::string fingerprint() const = 0;
  // Metadata for `inspect`, in file order, values printed.
  virtual std::vector<std::pair<std::string, std::string>> metadata() const = 0;
  virtual uint64_t file_bytes() const = 0;
};

}  // namespace suture
