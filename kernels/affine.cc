#include "kernels/affine.h"

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {

Status centre_groups(Stream& stream, const CentreGroupsArgs& args) {
  constexpr const char* kOp = "centre_groups";
  SUTURE_REQUIRE(args.n_rows >= 0 && args.n_groups >= 0 && args.width > 0, kOp,
                 "n_rows={} n_groups={} width={}", args.n_rows, args.n_groups, args.width);
  for (const int32_t group : args.groups)
    SUTURE_REQUIRE(0 <= group && group < args.n_groups, kOp, "group={} n_groups={}", group,
                   args.n_groups);
  if (args.n_rows == 0 || args.groups.empty()) return {};
  SUTURE_REQUIRE(args.x != nullptr && args.mean != nullptr && args.out != nullptr, kOp,
                 "x, mean or out is null");
  SUTURE_REQUIRE(args.out_stride == 0 || args.out_stride >= std::ssize(args.groups) * args.width,
                 kOp, "out_stride={} groups={} width={}", args.out_stride, args.groups.size(),
                 args.width);
  switch (stream.kind()) {
    case DeviceKind::kCpu: centre_groups_cpu(as_cpu(stream), args); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

Status scale_shift(Stream& stream, const ScaleShiftArgs& args) {
  constexpr const char* kOp = "scale_shift";
  SUTURE_REQUIRE(args.n_rows >= 0 && args.width >= 0, kOp, "n_rows={} width={}", args.n_rows,
                 args.width);
  if (args.n_rows == 0 || args.width == 0) return {};
  SUTURE_REQUIRE(args.x != nullptr && args.scale != nullptr && args.shift != nullptr, kOp,
                 "x, scale or shift is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: scale_shift_cpu(as_cpu(stream), args); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

}  // namespace suture
