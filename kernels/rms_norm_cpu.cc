#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The order of additions depends on the width alone.
float sum_of_squares(const float* x, int64_t width) {
  const hn::CappedTag<float, 16> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= width; i += 2 * lanes) {
    const auto x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + i + lanes);
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < width; ++i) sum += x[i] * x[i];
  return sum;
}

void normalise_rows(const float* x, const float* weight, int64_t n_rows, int64_t width, float eps,
                    float* out) {
  for (int64_t row = 0; row < n_rows; ++row, x += width, out += width) {
    const float mean = sum_of_squares(x, width) / static_cast<float>(width);
    const float factor = 1 / std::sqrt(mean + eps);
    for (int64_t i = 0; i < width; ++i) out[i] = x[i] * factor * weight[i];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace suture {
namespace {

HWY_EXPORT(normalise_rows);

constexpr int64_t kGrainValues = 16384;  // less is not worth waking another thread

}  // namespace

void rms_norm_cpu(CpuStream& stream, const float* x, const float* weight, int64_t n_rows,
                  int64_t width, float eps, float* out) {
  const int64_t grain = std::max<int64_t>(1, kGrainValues / width);
  stream.pool().parallel_for(n_rows, grain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(normalise_rows)
    (x + begin * width, weight, end - begin, width, eps, out + begin * width);
  });
}

}  // namespace suture
#endif  // HWY_ONCE
