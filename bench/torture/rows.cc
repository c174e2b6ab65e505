#include "bench/torture/rows.h"

#include <bit>
#include <cstring>

namespace suture::torture {
namespace {

// The finalizer of MurmurHash3, on 64 bits.
uint64_t scramble(uint64_t x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

uint64_t row_seed(uint64_t owner, uint64_t generation, int32_t layer, int64_t token) {
  return mix(owner, generation, static_cast<uint64_t>(layer), static_cast<uint64_t>(token));
}

// Calls use(row, part) for the K and V rows of every head; `part` counts them.
template <typename Use>
void for_each_row(const KvShape& shape, const KvLayerView& view, int64_t token, const Use& use) {
  const int64_t at = token % kKvBlockTokens * shape.head_dim * shape.element_bytes();
  for (int32_t head = 0; head < shape.n_kv_heads; ++head) {
    const KvBlockRows rows = kv_block_rows(shape, view, token / kKvBlockTokens, head);
    use(rows.key + at, 2 * head);
    use(rows.value + at, 2 * head + 1);
  }
}

size_t words_of(const KvShape& shape) {
  return static_cast<size_t>(shape.head_dim * shape.element_bytes()) / sizeof(uint64_t);
}

uint64_t word(uint64_t seed, int32_t part, size_t index) {
  return scramble(seed + static_cast<uint64_t>(part) * 1024 + index);
}

uint64_t different_bytes(uint64_t left, uint64_t right) {
  uint64_t count = 0;
  for (uint64_t rest = left ^ right; rest != 0; rest >>= 8) count += (rest & 0xff) != 0 ? 1 : 0;
  return count;
}

uint64_t generation_of(const StreamRef& ref, int64_t token) {
  return token < ref.prefix ? ref.parent_generation : ref.id.generation;
}

uint32_t epoch_of(uint64_t owner, uint64_t generation, int64_t token) {
  return static_cast<uint32_t>(row_seed(owner, generation, -1, token)) >> 1;
}

}  // namespace

uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return scramble(scramble(scramble(scramble(a + 1) + b + 1) + c + 1) + d + 1);
}

StreamInfo stream_info() {
  StreamInfo info;
  info.model_fingerprint = "torture";
  info.shape = {.n_layers = 2, .n_kv_heads = 2, .head_dim = 16, .dtype = DType::kF32};
  return info;
}

void write_rows(const StreamWriter& writer, PeerId owner, int32_t layer, int64_t end) {
  const KvLayerView view = writer.layer_view(layer);
  for (int64_t token = writer.committed(layer); token < end; ++token) {
    const uint64_t seed = row_seed(owner.value, writer.id().generation, layer, token);
    for_each_row(writer.shape(), view, token, [&](std::byte* row, int32_t part) {
      for (size_t i = 0; i < words_of(writer.shape()); ++i) {
        const uint64_t value = word(seed, part, i);
        std::memcpy(row + i * sizeof value, &value, sizeof value);
      }
    });
  }
}

void write_epochs(StreamWriter& writer, PeerId owner, int64_t first, int64_t end) {
  for (int64_t token = first; token < end; ++token)
    writer.set_rope_epoch(token, 1, epoch_of(owner.value, writer.id().generation, token));
}

uint64_t wrong_bytes(const StreamReader& reader, const StreamRef& ref, int32_t layer, int64_t end) {
  const KvLayerView view = reader.layer_view(layer);
  uint64_t wrong = 0;
  for (int64_t token = 0; token < end; ++token) {
    const uint64_t seed = row_seed(ref.owner.value, generation_of(ref, token), layer, token);
    for_each_row(reader.shape(), view, token, [&](const std::byte* row, int32_t part) {
      for (size_t i = 0; i < words_of(reader.shape()); ++i) {
        uint64_t value = 0;
        std::memcpy(&value, row + i * sizeof value, sizeof value);
        wrong += different_bytes(value, word(seed, part, i));
      }
    });
  }
  return wrong;
}

uint64_t wrong_epoch_bytes(const StreamReader& reader, const StreamRef& ref, int64_t end) {
  uint64_t wrong = 0;
  for (int64_t token = 0; token < end; ++token)
    wrong += different_bytes(static_cast<uint64_t>(reader.rope_epoch(token)),
                             epoch_of(ref.owner.value, generation_of(ref, token), token));
  return wrong;
}

int32_t token_id(int owner_index, uint64_t index) {
  return std::bit_cast<int32_t>(
      static_cast<uint32_t>(mix(static_cast<uint64_t>(owner_index), index)));
}

}  // namespace suture::torture
