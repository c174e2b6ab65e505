// Reads the GGUF container, version 3 (little-endian): typed metadata and tensors, in place.
// The bytes are taken to be hostile: nothing is read or allocated on the word of a count, length
// or offset that has not been held against the size of the file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "models/gguf_value.h"
#include "models/tensor_info.h"

namespace suture {

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

// Views into the bytes given to parse(), which must outlive it.
class GgufFile {
 public:
  // kCorrupt, or kUnsupported for other versions and byte orders. `where` names the file.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& where);

  const std::vector<GgufEntry>& entries() const { return entries_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const GgufValue* find(std::string_view key) const;

  // Adds the tensors of another part of the same model.
  void take_tensors(GgufFile part);

 private:
  friend class GgufParser;
  std::vector<GgufEntry> entries_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> index_;  // key to entry
};

}  // namespace suture
