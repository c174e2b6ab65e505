#include "bus/test_streams.h"

namespace suture {
namespace {

// First element of a row, by the layout's words: K [kv_head][32][head_dim], then V the same.
float* row_at(const KvShape& shape, const KvLayerView& view, int64_t token, int32_t head,
              bool is_v) {
  const int64_t block = view.block_ids[token / kKvBlockTokens];
  auto* elements = reinterpret_cast<float*>(view.base + block * shape.block_bytes());
  const int64_t part = is_v ? shape.half_block_elements() : 0;
  return elements + part + (head * kKvBlockTokens + token % kKvBlockTokens) * shape.head_dim;
}

}  // namespace

KvShape small_shape() {
  return KvShape{.n_layers = 3, .n_kv_heads = 2, .head_dim = 8, .dtype = DType::kF32};
}

StreamInfo small_info() {
  StreamInfo info;
  info.model_fingerprint = "test";
  info.shape = small_shape();
  return info;
}

float row_value(uint32_t salt, int32_t layer, int64_t token, int32_t head, bool is_v) {
  const auto value = salt * 7919u + static_cast<uint32_t>(token) * 31u +
                     static_cast<uint32_t>(layer * 4 + head * 2 + (is_v ? 1 : 0)) * 104729u;
  return static_cast<float>(value % 1000003u);  // exact in float32
}

void write_row(const KvShape& shape, const KvLayerView& view, uint32_t salt, int32_t layer,
               int64_t token) {
  for (int32_t head = 0; head < shape.n_kv_heads; ++head) {
    for (const bool is_v : {false, true}) {
      float* row = row_at(shape, view, token, head, is_v);
      for (int32_t i = 0; i < shape.head_dim; ++i)
        row[i] = row_value(salt, layer, token, head, is_v);
    }
  }
}

int64_t wrong_elements(const KvShape& shape, const KvLayerView& view, uint32_t salt, int32_t layer,
                       int64_t first, int64_t end) {
  int64_t wrong = 0;
  for (int64_t token = first; token < end; ++token) {
    for (int32_t head = 0; head < shape.n_kv_heads; ++head) {
      for (const bool is_v : {false, true}) {
        const float* row = row_at(shape, view, token, head, is_v);
        for (int32_t i = 0; i < shape.head_dim; ++i)
          wrong += row[i] != row_value(salt, layer, token, head, is_v) ? 1 : 0;
      }
    }
  }
  return wrong;
}

}  // namespace suture
