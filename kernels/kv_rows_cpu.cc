#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kv_rows_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/kv_element.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void store_values(const float* source, int64_t n, T* target) {
  for (int64_t i = 0; i < n; ++i) store(source[i], target[i]);
}

#if HWY_TARGET != HWY_SCALAR
inline void store_values(const float* source, int64_t n, Half* target) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, source + i)), half,
               reinterpret_cast<hwy::float16_t*>(target + i));
  }
  for (; i < n; ++i) store(source[i], target[i]);
}
#endif

template <class T>
void append_rows(const KvAppendArgs& args, int64_t begin, int64_t end) {
  const int64_t dim = args.shape.head_dim;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t entry = args.first_entry + row;
    for (int32_t head = 0; head < args.shape.n_kv_heads; ++head) {
      const auto rows = kv_block_rows(args.shape, args.kv, entry / kKvBlockTokens, head);
      const int64_t offset = entry % kKvBlockTokens * dim;
      T* key = reinterpret_cast<T*>(rows.key) + offset;
      T* value = reinterpret_cast<T*>(rows.value) + offset;
      const int64_t source = (row * args.shape.n_kv_heads + head) * dim;
      store_values(args.key + source, dim, key);
      store_values(args.value + source, dim, value);
    }
  }
}

void append(const KvAppendArgs& args, int64_t begin, int64_t end) {
  switch (args.shape.dtype) {
    case DType::kF16: append_rows<Half>(args, begin, end); break;
    case DType::kBf16: append_rows<Bf16>(args, begin, end); break;
    default: append_rows<float>(args, begin, end); break;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace suture {
namespace {

HWY_EXPORT(append);

constexpr int64_t kGrain = 16;  // rows; fewer are not worth waking another thread

template <class T>
void gather_rows(const KvGatherArgs& args, int64_t begin, int64_t end) {
  const int64_t dim = args.shape.head_dim;
  for (int64_t entry = begin; entry < end; ++entry) {
    for (int32_t head = 0; head < args.shape.n_kv_heads; ++head) {
      const auto rows = kv_block_rows(args.shape, args.kv, entry / kKvBlockTokens, head);
      const int64_t offset = entry % kKvBlockTokens * dim;
      const T* key = reinterpret_cast<const T*>(rows.key) + offset;
      const T* value = reinterpret_cast<const T*>(rows.value) + offset;
      const int64_t target = (head * (args.end - args.begin) + entry - args.begin) * dim;
      for (int64_t i = 0; i < dim; ++i) args.key[target + i] = to_f32(key[i]);
      for (int64_t i = 0; i < dim; ++i) args.value[target + i] = to_f32(value[i]);
    }
  }
}

void gather(const KvGatherArgs& args, int64_t begin, int64_t end) {
  switch (args.shape.dtype) {
    case DType::kF16: gather_rows<Half>(args, begin, end); break;
    case DType::kBf16: gather_rows<Bf16>(args, begin, end); break;
    default: gather_rows<float>(args, begin, end); break;
  }
}

}  // namespace

void kv_append_cpu(CpuStream& stream, const KvAppendArgs& args) {
  stream.pool().parallel_for(args.n_rows, kGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(append)(args, begin, end);
  });
}

void kv_gather_cpu(CpuStream& stream, const KvGatherArgs& args) {
  stream.pool().parallel_for(args.end - args.begin, kGrain, [&](int64_t begin, int64_t end, int) {
    gather(args, args.begin + begin, args.begin + end);
  });
}

}  // namespace suture
#endif  // HWY_ONCE
