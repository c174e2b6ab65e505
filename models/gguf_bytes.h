// Bytes of a GGUF file as what they stand for. The caller has checked that there are enough.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace suture {

static_assert(std::endian::native == std::endian::little, "GGUF v3 is read in place");

template <typename T>
T load_value(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace suture
