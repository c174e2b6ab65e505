#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/exp_inl.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void gate_lanes(D d, const float* gate, const float* up, float* out) {
  const auto x = hn::LoadU(d, gate);
  const auto silu = hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp_f32(d, hn::Neg(x))));
  hn::StoreU(hn::Mul(silu, hn::LoadU(d, up)), d, out);
}

void gate_values(const float* gate, const float* up, int64_t n, float* out) {
  const hn::CappedTag<float, 16> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) gate_lanes(d, gate + i, up + i, out + i);
  for (; i < n; ++i) gate_lanes(hn::CappedTag<float, 1>(), gate + i, up + i, out + i);
}

void add_values(float* x, const float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] += y[i];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace suture {
namespace {

HWY_EXPORT(gate_values);
HWY_EXPORT(add_values);

// Fewer values are not worth waking another thread.
constexpr int64_t kGateGrain = 4096;
constexpr int64_t kAddGrain = 32768;

}  // namespace

void gated_silu_cpu(CpuStream& stream, const float* gate, const float* up, int64_t n, float* out) {
  stream.pool().parallel_for(n, kGateGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(gate_values)(gate + begin, up + begin, end - begin, out + begin);
  });
}

void add_cpu(CpuStream& stream, float* x, const float* y, int64_t n) {
  stream.pool().parallel_for(n, kAddGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(add_values)(x + begin, y + begin, end - begin);
  });
}

}  // namespace suture
#endif  // HWY_ONCE
