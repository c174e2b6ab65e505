#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After Highway itself.
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {
namespace {

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

void set_one(double angle, double factor, int64_t i, Rotation& rotation) {
  rotation.cosine[i] = static_cast<float>(std::cos(angle) * factor);
  rotation.sine[i] = static_cast<float>(std::sin(angle) * factor);
}

// The angles of a position at n frequencies. Which way one is computed follows from itself and its
// place among the n.
void set_rotation(double position, const float* frequencies, int64_t n, double factor,
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

// Turns n pairs (x[i * step], x[i * step + distance]) of one head.
template <int kStep>
void rotate(const float* x, const Rotation& rotation, int64_t n, int64_t distance, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float cosine = rotation.cosine[i], sine = rotation.sine[i];
    const float first = x[i * kStep], second = x[i * kStep + distance];
    out[i * kStep] = first * cosine - second * sine;
    out[i * kStep + distance] = second * cosine + first * sine;
  }
}

void rotate_rows(const RopeArgs& args, int64_t begin, int64_t end) {
  const int64_t half = args.head_dim / 2;
  Rotation rotation;
  for (int64_t row = begin; row < end; ++row) {
    const auto position = static_cast<double>(args.positions[row] + args.position_shift);
    for (int64_t first = 0; first < half; first += Rotation::kMaxPairs) {
      const int64_t n = std::min(Rotation::kMaxPairs, half - first);
      set_rotation(position, args.frequencies + first, n,
                   static_cast<double>(args.attention_factor), rotation);
      for (int64_t head = row * args.n_heads; head < (row + 1) * args.n_heads; ++head) {
        const float* x = args.x + head * args.head_dim;
        float* out = args.out + head * args.head_dim;
        if (args.pairing == RopePairing::kHalves) {
          rotate<1>(x + first, rotation, n, half, out + first);
        } else {
          rotate<2>(x + 2 * first, rotation, n, 1, out + 2 * first);
        }
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace suture {
namespace {

HWY_EXPORT(rotate_rows);

constexpr int64_t kGrain = 4;  // rows; fewer are not worth waking another thread

}  // namespace

void rope_cpu(CpuStream& stream, const RopeArgs& args) {
  stream.pool().parallel_for(args.n_rows, kGrain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(rotate_rows)(args, begin, end);
  });
}

}  // namespace suture
#endif  // HWY_ONCE
