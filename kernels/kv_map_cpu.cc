#include <cmath>
#include <vector>

#include "kernels/cpu/kv_element.h"
#include "kernels/cpu/ops.h"

namespace suture {
namespace {

constexpr int64_t kGrain = 4;  // rows; fewer are not worth waking another thread

// cos and sin of the angles between the two rotations of one row: [head_dim / 2] each.
struct Turn {
  std::vector<float> cosine;
  std::vector<float> sine;

  void set(const KvMapArgs& args, int64_t row) {
    const KvRotation& from = args.from_rotation;
    const KvRotation& to = args.to_rotation;
    const size_t half = static_cast<size_t>(args.to_shape.head_dim) / 2;
    const double scale = static_cast<double>(to.attention_factor) / from.attention_factor;
    cosine.resize(half);
    sine.resize(half);
    for (size_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(to.positions[row]) * static_cast<double>(to.frequencies[i]) -
          static_cast<double>(from.positions[row]) * static_cast<double>(from.frequencies[i]);
      cosine[i] = static_cast<float>(std::cos(angle) * scale);
      sine[i] = static_cast<float>(std::sin(angle) * scale);
    }
  }
};

// Where the two dimensions of pair i lie.
struct PairPlace {
  PairPlace(RopePairing pairing, int64_t head_dim)
      : step(pairing == RopePairing::kHalves ? 1 : 2),
        distance(pairing == RopePairing::kHalves ? head_dim / 2 : 1) {}
  int64_t step;
  int64_t distance;
};

template <class From, class To>
void map_rows(const KvMapArgs& args, int64_t begin, int64_t end) {
  thread_local Turn turn;
  const int64_t dim = args.to_shape.head_dim;
  const PairPlace source(args.from_rotation.pairing, dim);
  const PairPlace target(args.to_rotation.pairing, dim);
  for (int64_t row = begin; row < end; ++row) {
    turn.set(args, row);
    const int64_t from_entry = args.from_entries[row], to_entry = args.first_entry + row;
    for (int32_t head = 0; head < args.to_shape.n_kv_heads; ++head) {
      const auto from =
          kv_block_rows(args.from_shape, args.from, from_entry / kKvBlockTokens, head);
      const auto to = kv_block_rows(args.to_shape, args.to, to_entry / kKvBlockTokens, head);
      const int64_t from_offset = from_entry % kKvBlockTokens * dim;
      const int64_t to_offset = to_entry % kKvBlockTokens * dim;
      const From* key = reinterpret_cast<const From*>(from.key) + from_offset;
      const From* value = reinterpret_cast<const From*>(from.value) + from_offset;
      To* new_key = reinterpret_cast<To*>(to.key) + to_offset;
      To* new_value = reinterpret_cast<To*>(to.value) + to_offset;
      for (int64_t i = 0; i < dim / 2; ++i) {
        const float cosine = turn.cosine[static_cast<size_t>(i)];
        const float sine = turn.sine[static_cast<size_t>(i)];
        const float first = to_f32(key[i * source.step]);
        const float second = to_f32(key[i * source.step + source.distance]);
        store(first * cosine - second * sine, new_key[i * target.step]);
        store(second * cosine + first * sine, new_key[i * target.step + target.distance]);
      }
      for (int64_t i = 0; i < dim; ++i) store(to_f32(value[i]), new_value[i]);
    }
  }
}

template <class From>
void map_from(const KvMapArgs& args, int64_t begin, int64_t end) {
  switch (args.to_shape.dtype) {
    case DType::kF16: map_rows<From, Half>(args, begin, end); break;
    case DType::kBf16: map_rows<From, Bf16>(args, begin, end); break;
    default: map_rows<From, float>(args, begin, end); break;
  }
}

}  // namespace

void kv_map_cpu(CpuStream& stream, const KvMapArgs& args) {
  stream.pool().parallel_for(args.n_rows, kGrain, [&](int64_t begin, int64_t end, int) {
    switch (args.from_shape.dtype) {
      case DType::kF16: map_from<Half>(args, begin, end); break;
      case DType::kBf16: map_from<Bf16>(args, begin, end); break;
      default: map_from<float>(args, begin, end); break;
    }
  });
}

}  // namespace suture
