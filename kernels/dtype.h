// Element types of weights, activations and K/V rows, and the size of their storage blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace suture {

// Quantised types are stored as GGUF blocks along a row (ggml's block layouts, little-endian).
enum class DType : uint8_t {
  kF32,
  kF16,
  kBf16,
  kI32,
  kI64,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

struct DTypeInfo {
  std::string_view name;   // "q4_k"
  int64_t block_elements;  // elements stored together, 1 for plain types
  int64_t block_bytes;     // bytes of that block
};

const DTypeInfo& dtype_info(DType dtype);
std::string_view dtype_name(DType dtype);
bool is_quantised(DType dtype);

// Bytes of `elements` consecutive elements; elements must be a multiple of block_elements.
// Nothing if it is not, is negative, or the product overflows.
std::optional<int64_t> dtype_bytes(DType dtype, int64_t elements);

}  // namespace suture
