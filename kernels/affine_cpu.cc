#include "kernels/cpu/ops.h"

namespace suture {
namespace {

constexpr int64_t kGrain = 16;  // rows; fewer are not worth waking another thread

void centre_row(const CentreGroupsArgs& args, int64_t row) {
  const float* mean = args.mean;
  const float* scale = args.scale;
  const int64_t dense = std::ssize(args.groups) * args.width;
  float* out = args.out + row * (args.out_stride == 0 ? dense : args.out_stride);
  for (const int32_t group : args.groups) {
    const float* x = args.x + (row * args.n_groups + group) * args.width;
    for (int64_t i = 0; i < args.width; ++i) out[i] = x[i] - mean[i];
    mean += args.width;
    if (scale != nullptr) {
      for (int64_t i = 0; i < args.width; ++i) out[i] *= scale[i];
      scale += args.width;
    }
    out += args.width;
  }
}

}  // namespace

void centre_groups_cpu(CpuStream& stream, const CentreGroupsArgs& args) {
  stream.pool().parallel_for(args.n_rows, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) centre_row(args, row);
  });
}

void scale_shift_cpu(CpuStream& stream, const ScaleShiftArgs& args) {
  stream.pool().parallel_for(args.n_rows, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float* x = args.x + row * args.width;
      for (int64_t i = 0; i < args.width; ++i) x[i] = args.scale[i] * x[i] + args.shift[i];
    }
  });
}

}  // namespace suture
