#include "kernels/rope.h"

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {

Status rope(Stream& stream, const RopeArgs& args) {
  constexpr const char* kOp = "rope";
  SUTURE_REQUIRE(args.n_rows >= 0 && args.n_heads > 0, kOp, "n_rows={} n_heads={}", args.n_rows,
                 args.n_heads);
  SUTURE_REQUIRE(args.head_dim > 0 && args.head_dim % 2 == 0, kOp, "head_dim={}", args.head_dim);
  if (args.n_rows == 0) return {};
  SUTURE_REQUIRE(args.x != nullptr && args.out != nullptr, kOp, "x or out is null");
  SUTURE_REQUIRE(args.positions != nullptr && args.frequencies != nullptr, kOp,
                 "positions or frequencies is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: rope_cpu(as_cpu(stream), args); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

}  // namespace suture
