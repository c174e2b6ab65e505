// Reads the GGUF container, version 3 (little-endian): typed metadata and tensors, in place.
// The bytes are taken to be hostile: nothing is read or allocated on the word of a count, length
// or offset that has not been held against the size of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "models/tensor_info.h"

namespace suture {

enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// A metadata value. Accessors give nothing when the value is of another kind.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element_type = GgufType::kU8;  // kArray only
  uint64_t count = 1;                     // elements of an array
  std::span<const std::byte> bytes;       // as stored; a string without its length

  std::optional<uint64_t> as_unsigned() const;  // any integer type, not negative
  std::optional<double> as_float() const;       // f32 or f64
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;
  std::optional<std::vector<std::string_view>> as_strings() const;
  std::optional<std::vector<int32_t>> as_int32s() const;  // array of i32 or u32
  std::optional<std::vector<float>> as_floats() const;    // array of f32
  // For people: "0.5", "'text'", "49152 strings: '<unk>', ...".
  std::string text() const;
};

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

 private:
  friend class GgufParser;
  std::vector<GgufEntry> entries_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> index_;  // key to entry
};

}  // namespace suture
