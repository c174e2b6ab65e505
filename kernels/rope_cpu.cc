#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/rotation_inl.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {
namespace {

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
        rotate_pairs(args.pairing, args.x + head * args.head_dim, rotation, first, n, args.head_dim,
                     args.out + head * args.head_dim);
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
