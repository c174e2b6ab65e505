// Element types of weights, activations and K/V rows, and the size of their storage blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
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
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIq4Nl,
};
inline constexpr size_t kDTypes = static_cast<size_t>(DType::kIq4Nl) + 1;

struct DTypeInfo {
  std::string_view name;   // "q4_k"
  int64_t block_elements;  // elements stored together, 1 for plain types
  int64_t block_bytes;     // bytes of that block
};

const DTypeInfo& dtype_info(DType dtype);
std::string_view dtype_name(DType dtype);
bool is_quantised(DType dtype);
// Types that matmul() and embedding() read: all but the integers.
bool is_weight(DType dtype);
// "f32, f16, bf16, q4_0, ...": for messages.
std::string known_weight_types();

// Bytes of `elements` consecutive elements; elements must be a multiple of block_elements.
// Nothing if it is not, is negative, or the product overflows.
std::optional<int64_t> dtype_bytes(DType dtype, int64_t elements);

}  // namespace suture
