// exp() of float32 vectors, the one every CPU kernel uses. Per-target Highway header: include it
// after <hwy/highway.h> in a file that is compiled once per instruction set.
#if defined(SUTURE_KERNELS_CPU_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SUTURE_KERNELS_CPU_EXP_INL_H_
#undef SUTURE_KERNELS_CPU_EXP_INL_H_
#else
#define SUTURE_KERNELS_CPU_EXP_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {

// exp_f32() for values up to 88.3.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp_bounded(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  // x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, so that n times the first is exact.
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // Minimax polynomial of the Cephes library for exp(r) = 1 + r + r^2 p(r).
  V p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  const V y = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  const V scaled = hn::Mul(y, hn::BitCast(d, exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), scaled);
}

// Within 2 ulp; results below the smallest normal number are 0 (denormals would stall the
// multiplications that follow), results above about 2.4e38 are infinite; NaN stays NaN.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp_f32(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.3f)), infinity, exp_bounded(d, x));
}

}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
