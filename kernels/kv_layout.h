// Where a K/V row lies inside a slab (design §3): arena [layer][block]; inside a block
// K [kv_head][32][head_dim], then V the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace suture {

inline constexpr int64_t kKvBlockTokens = 32;

struct KvShape {
  int32_t n_layers = 0;
  int32_t n_kv_heads = 0;
  int32_t head_dim = 0;
  DType dtype = DType::kF16;  // kF32, kF16 or kBf16

  // Elements of K (or of V) in one block.
  int64_t half_block_elements() const {
    return static_cast<int64_t>(n_kv_heads) * kKvBlockTokens * head_dim;
  }
  int64_t element_bytes() const { return dtype == DType::kF32 ? 4 : 2; }
  int64_t block_bytes() const { return 2 * half_block_elements() * element_bytes(); }
  // Bytes of K and V that one token occupies in all layers.
  int64_t token_bytes() const { return 2ll * n_layers * n_kv_heads * head_dim * element_bytes(); }

  bool operator==(const KvShape&) const = default;
};

inline int64_t kv_blocks_for(int64_t tokens) {
  return (tokens + kKvBlockTokens - 1) / kKvBlockTokens;
}

// One layer's arena together with the block table of one sequence: enough to find every row.
// Token t lies in block block_ids[t / 32], row t % 32.
struct KvLayerView {
  std::byte* base = nullptr;            // block b of this layer starts at base + b * block_bytes
  const uint32_t* block_ids = nullptr;  // [kv_blocks_for(tokens)]
};

// The rows of one head in one block: token t of the block is [t * head_dim, (t + 1) * head_dim).
struct KvBlockRows {
  std::byte* key = nullptr;
  std::byte* value = nullptr;
};

// `block` counts along the sequence: tokens 32 * block and the 31 after it.
inline KvBlockRows kv_block_rows(const KvShape& shape, const KvLayerView& kv, int64_t block,
                                 int32_t kv_head) {
  const int64_t head_bytes = kKvBlockTokens * shape.head_dim * shape.element_bytes();
  std::byte* key = kv.base + kv.block_ids[block] * shape.block_bytes() + kv_head * head_bytes;
  return {key, key + shape.half_block_elements() * shape.element_bytes()};
}

}  // namespace suture
