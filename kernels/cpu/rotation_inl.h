// Turning the pairs of dimensions of a head by the angles of a position. Per-target Highway header:
// include it after <hwy/highway.h> in a file that is compiled once per instruction set.
#if defined(SUTURE_KERNELS_CPU_ROTATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SUTURE_KERNELS_CPU_ROTATION_INL_H_
#undef SUTURE_KERNELS_CPU_ROTATION_INL_H_
#else
#define SUTURE_KERNELS_CPU_ROTATION_INL_H_
#endif

#include <hwy/highway.h>
// After Highway itself.
#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <cstdint>

#include "kernels/rope.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F64 = hn::CappedTag<double, 8>;

// cos and sin of some of one row's angles, computed in float64 and rounded once.
struct Rotation {
  static constexpr int64_t kMaxPairs = 64;
  alignas(64) float cosine[kMaxPairs];
  alignas(64) float sine[kMaxPairs];
};

// Angles beyond this are left to the standard library.
constexpr double kLargestVectorAngle = 39000;

inline void set_one(double angle, double factor, int64_t i, Rotation& rotation) {
  rotation.cosine[i] = static_cast<float>(std::cos(angle) * factor);
  rotation.sine[i] = static_cast<float>(std::sin(angle) * factor);
}

// The angles of a position at n frequencies. Which way one is computed follows from itself and its
// place among the n.
inline void set_rotation(double position, const float* frequencies, int64_t n, double factor,
                         Rotation& rotation) {
  const F64 d;
  const hn::Rebind<float, F64> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto largest = hn::Set(d, kLargestVectorAngle);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto angle =
        hn::Mul(hn::Set(d, position), hn::PromoteTo(d, hn::LoadU(narrow, frequencies + i)));
    if (!hn::AllTrue(d, hn::Lt(hn::Abs(angle), largest))) {
      for (int64_t k = i; k < i + lanes; ++k) {
        set_one(position * static_cast<double>(frequencies[k]), factor, k, rotation);
      }
      continue;
    }
    const auto scale = hn::Set(d, factor);
    hn::Store(hn::DemoteTo(narrow, hn::Mul(hn::Cos(d, angle), scale)), narrow, rotation.cosine + i);
    hn::Store(hn::DemoteTo(narrow, hn::Mul(hn::Sin(d, angle), scale)), narrow, rotation.sine + i);
  }
  for (; i < n; ++i) set_one(position * static_cast<double>(frequencies[i]), factor, i, rotation);
}

// Turns n pairs (x[i * step], x[i * step + distance]) of one head; `out` may be x.
template <int kStep>
void rotate(const float* x, const Rotation& rotation, int64_t n, int64_t distance, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float cosine = rotation.cosine[i], sine = rotation.sine[i];
    const float first = x[i * kStep], second = x[i * kStep + distance];
    out[i * kStep] = first * cosine - second * sine;
    out[i * kStep + distance] = second * cosine + first * sine;
  }
}

// Turns pairs [first, first + n) of one head of head_dim dimensions.
inline void rotate_pairs(RopePairing pairing, const float* x, const Rotation& rotation,
                         int64_t first, int64_t n, int64_t head_dim, float* out) {
  if (pairing == RopePairing::kHalves) {
    rotate<1>(x + first, rotation, n, head_dim / 2, out + first);
  } else {
    rotate<2>(x + 2 * first, rotation, n, 1, out + 2 * first);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
