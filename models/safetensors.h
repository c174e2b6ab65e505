// Reads and writes the safetensors container: an 8-byte header length, a JSON header, raw tensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/tensor_info.h"

namespace suture {

// Views into the bytes given to parse(), which must outlive it.
class SafetensorsFile {
 public:
  // kCorrupt if the header, a range or a shape contradicts the file; types this build cannot read
  // are marked in TensorInfo::unsupported_type. `where` names the file in errors.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, const std::string& where);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in file order
  const TensorInfo* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Writes the tensors (plain types only) in the order given. The file appears under its name when
// it is complete, never in part.
Status write_safetensors(const std::filesystem::path& path, std::span<const TensorInfo> tensors);

}  // namespace suture
