#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kv_plain_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/kv_element.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/rotation_inl.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void load_values(const T* source, int64_t n, float* target) {
  for (int64_t i = 0; i < n; ++i) target[i] = to_f32(source[i]);
}

#if HWY_TARGET != HWY_SCALAR
inline void load_values(const Half* source, int64_t n, float* target) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto stored = hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(source + i));
    hn::StoreU(hn::PromoteTo(d, stored), d, target + i);
  }
  for (; i < n; ++i) target[i] = to_f32(source[i]);
}
#endif

template <class T>
void load_row(const KvPlainArgs& args, int64_t entry, float* key, float* value) {
  const int64_t dim = args.shape.head_dim;
  const int64_t offset = entry % kKvBlockTokens * dim;
  for (const KvPlainLayer& layer : args.layers) {
    for (int32_t head = 0; head < args.shape.n_kv_heads; ++head, key += dim, value += dim) {
      const auto rows = kv_block_rows(args.shape, layer.kv, entry / kKvBlockTokens, head);
      load_values(reinterpret_cast<const T*>(rows.key) + offset, dim, key);
      load_values(reinterpret_cast<const T*>(rows.value) + offset, dim, value);
    }
  }
}

bool same_table(const KvPlainLayer& a, const KvPlainLayer& b) {
  return a.frequencies == b.frequencies && a.attention_factor == b.attention_factor;
}

// Layers with one table share the angles of a row.
void turn_back(const KvPlainArgs& args, int32_t position, float* key) {
  const int64_t dim = args.shape.head_dim;
  Rotation rotation;
  for (int64_t first = 0; first < dim / 2; first += Rotation::kMaxPairs) {
    const int64_t n = std::min(Rotation::kMaxPairs, dim / 2 - first);
    float* head = key;
    const KvPlainLayer* before = nullptr;
    for (const KvPlainLayer& layer : args.layers) {
      if (before == nullptr || !same_table(*before, layer)) {
        set_rotation(-static_cast<double>(position), layer.frequencies + first, n,
                     1 / static_cast<double>(layer.attention_factor), rotation);
      }
      before = &layer;
      for (int32_t i = 0; i < args.shape.n_kv_heads; ++i, head += dim)
        rotate_pairs(args.pairing, head, rotation, first, n, dim, head);
    }
  }
}

void plain_rows(const KvPlainArgs& args, int64_t begin, int64_t end) {
  const int64_t width = std::ssize(args.layers) * args.shape.n_kv_heads * args.shape.head_dim;
  for (int64_t row = begin; row < end; ++row) {
    float* key = args.key + row * width;
    float* value = args.value + row * width;
    switch (args.shape.dtype) {
      case DType::kF16: load_row<Half>(args, args.entries[row], key, value); break;
      case DType::kBf16: load_row<Bf16>(args, args.entries[row], key, value); break;
      default: load_row<float>(args, args.entries[row], key, value); break;
    }
    turn_back(args, args.positions[row], key);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace suture {
namespace {

HWY_EXPORT(plain_rows);

constexpr int64_t kGrain = 2;  // rows; fewer are not worth waking another thread

}  // namespace

void kv_plain_cpu(CpuStream& stream, const KvPlainArgs& args) {
  stream.pool().parallel_for(args.n_rows, kGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(plain_rows)(args, begin, end);
  });
}

}  // namespace suture
#endif  // HWY_ONCE
