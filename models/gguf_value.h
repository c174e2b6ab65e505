// A typed value of GGUF metadata, in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// Bytes of a value of fixed size, 0 for strings, arrays and types that do not exist.
uint64_t scalar_bytes(GgufType type);

}  // namespace suture
