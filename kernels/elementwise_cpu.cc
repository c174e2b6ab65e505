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

// x / (1 + exp(-y)): x times the logistic function of y.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V times_logistic(D d, V x, V y) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp_f32(d, hn::Neg(y))));
}

struct Silu {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    return times_logistic(d, x, x);
  }
};

// (1 + tanh(u)) / 2 is the logistic function of 2 u.
struct GeluTanh {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    constexpr float kTwiceRoot = 1.5957691216057308f;  // 2 sqrt(2 / pi)
    const V cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), hn::Set(d, 0.044715f)), x, x);
    return times_logistic(d, x, hn::Mul(hn::Set(d, kTwiceRoot), cubic));
  }
};

template <class D, class Gate>
HWY_INLINE void gate_lanes(D d, Gate function, const float* gate, const float* up, float* out) {
  const auto passed = function(d, hn::LoadU(d, gate));
  hn::StoreU(hn::Mul(passed, hn::LoadU(d, up)), d, out);
}

template <class Gate>
void gate_all(Gate function, const float* gate, const float* up, int64_t n, float* out) {
  const hn::CappedTag<float, 16> d;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) gate_lanes(d, function, gate + i, up + i, out + i);
  for (; i < n; ++i) gate_lanes(one, function, gate + i, up + i, out + i);
}

void silu_values(const float* gate, const float* up, int64_t n, float* out) {
  gate_all(Silu(), gate, up, n, out);
}

void gelu_tanh_values(const float* gate, const float* up, int64_t n, float* out) {
  gate_all(GeluTanh(), gate, up, n, out);
}

// tanh(x) = 1 - 2 / (exp(2 x) + 1).
template <class D>
HWY_INLINE void cap_lanes(D d, float* x, float cap) {
  const auto one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f);
  const auto e = exp_f32(d, hn::Mul(hn::LoadU(d, x), hn::Set(d, 2.0f / cap)));
  const auto tanh = hn::Sub(one, hn::Div(two, hn::Add(e, one)));
  hn::StoreU(hn::Mul(hn::Set(d, cap), tanh), d, x);
}

void cap_values(float* x, int64_t n, float cap) {
  const hn::CappedTag<float, 16> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) cap_lanes(d, x + i, cap);
  for (; i < n; ++i) cap_lanes(hn::CappedTag<float, 1>(), x + i, cap);
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

HWY_EXPORT(silu_values);
HWY_EXPORT(gelu_tanh_values);
HWY_EXPORT(cap_values);
HWY_EXPORT(add_values);

// Fewer values are not worth waking another thread.
constexpr int64_t kGateGrain = 4096;
constexpr int64_t kAddGrain = 32768;

}  // namespace

void gated_silu_cpu(CpuStream& stream, const float* gate, const float* up, int64_t n, float* out) {
  stream.pool().parallel_for(n, kGateGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(silu_values)(gate + begin, up + begin, end - begin, out + begin);
  });
}

void gated_gelu_tanh_cpu(CpuStream& stream, const float* gate, const float* up, int64_t n,
                         float* out) {
  stream.pool().parallel_for(n, kGateGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(gelu_tanh_values)(gate + begin, up + begin, end - begin, out + begin);
  });
}

void soft_cap_cpu(CpuStream& stream, float* x, int64_t n, float cap) {
  stream.pool().parallel_for(n, kGateGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(cap_values)(x + begin, end - begin, cap);
  });
}

void add_cpu(CpuStream& stream, float* x, const float* y, int64_t n) {
  stream.pool().parallel_for(n, kAddGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(add_values)(x + begin, y + begin, end - begin);
  });
}

}  // namespace suture
#endif  // HWY_ONCE
