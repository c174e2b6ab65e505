#include "models/gguf_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "models/gguf_bytes.h"

namespace suture {

namespace {

std::optional<int64_t> as_signed(const GgufValue& value) {
  switch (value.type) {
    case GgufType::kU8: return load_value<uint8_t>(value.bytes);
    case GgufType::kI8: return load_value<int8_t>(value.bytes);
    case GgufType::kU16: return load_value<uint16_t>(value.bytes);
    case GgufType::kI16: return load_value<int16_t>(value.bytes);
    case GgufType::kU32: return load_value<uint32_t>(value.bytes);
    case GgufType::kI32: return load_value<int32_t>(value.bytes);
    case GgufType::kI64: return load_value<int64_t>(value.bytes);
    default: return std::nullopt;
  }
}

}  // namespace

// Bytes of a value of fixed size, 0 for strings, arrays and types that do not exist.
uint64_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool: return 1;
    case GgufType::kU16:
    case GgufType::kI16: return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32: return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64: return 8;
    case GgufType::kString:
    case GgufType::kArray: break;
  }
  return 0;
}

std::optional<uint64_t> GgufValue::as_unsigned() const {
  if (type == GgufType::kU64) return load_value<uint64_t>(bytes);
  const auto value = as_signed(*this);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<uint64_t>(*value);
}

std::optional<double> GgufValue::as_float() const {
  if (type == GgufType::kF32) return load_value<float>(bytes);
  if (type == GgufType::kF64) return load_value<double>(bytes);
  return std::nullopt;
}

std::optional<bool> GgufValue::as_bool() const {
  if (type != GgufType::kBool) return std::nullopt;
  return load_value<uint8_t>(bytes) != 0;
}

std::optional<std::string_view> GgufValue::as_string() const {
  if (type != GgufType::kString) return std::nullopt;
  return as_text(bytes);
}

std::optional<std::vector<std::string_view>> GgufValue::as_strings() const {
  if (type != GgufType::kArray || element_type != GgufType::kString) return std::nullopt;
  std::vector<std::string_view> strings;
  strings.reserve(count);
  std::span<const std::byte> rest = bytes;  // lengths were checked by the parser
  for (uint64_t i = 0; i < count; ++i) {
    const auto length = load_value<uint64_t>(rest);
    strings.push_back(as_text(rest.subspan(8, length)));
    rest = rest.subspan(8 + length);
  }
  return strings;
}

std::optional<std::vector<int32_t>> GgufValue::as_int32s() const {
  if (type != GgufType::kArray) return std::nullopt;
  if (element_type != GgufType::kI32 && element_type != GgufType::kU32) return std::nullopt;
  std::vector<int32_t> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::optional<std::vector<float>> GgufValue::as_floats() const {
  if (type != GgufType::kArray || element_type != GgufType::kF32) return std::nullopt;
  std::vector<float> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string GgufValue::text() const {
  constexpr uint64_t kShown = 4;
  if (const auto flag = as_bool()) return *flag ? "true" : "false";
  if (const auto string = as_string()) return fmt::format("'{}'", *string);
  if (const auto number = as_float()) return fmt::format("{:.7g}", *number);
  if (type == GgufType::kU64) return fmt::format("{}", load_value<uint64_t>(bytes));
  if (type != GgufType::kArray) return fmt::format("{}", as_signed(*this).value_or(0));
  if (element_type == GgufType::kString) {
    std::string list = fmt::format("{} strings", count);
    const auto strings = *as_strings();
    for (uint64_t i = 0; i < std::min(count, kShown); ++i)
      list += fmt::format("{} '{}'", i == 0 ? ":" : ",", strings[i]);
    return count > kShown ? list + ", ..." : list;
  }
  std::string list = fmt::format("{} numbers", count);
  const uint64_t size = scalar_bytes(element_type);
  for (uint64_t i = 0; i < std::min(count, kShown); ++i) {
    const GgufValue element{element_type, element_type, 1, bytes.subspan(i * size, size)};
    list += fmt::format("{} {}", i == 0 ? ":" : ",", element.text());
  }
  return count > kShown ? list + ", ..." : list;
}

}  // namespace suture
