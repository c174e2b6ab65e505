#include "kernels/elementwise.h"

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {

Status gated_silu(Stream& stream, const float* gate, const float* up, int64_t n, float* out) {
  constexpr const char* kOp = "gated_silu";
  SUTURE_REQUIRE(n >= 0, kOp, "n={}", n);
  if (n == 0) return {};
  SUTURE_REQUIRE(gate != nullptr && up != nullptr && out != nullptr, kOp,
                 "gate, up or out is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: gated_silu_cpu(as_cpu(stream), gate, up, n, out); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

Status add(Stream& stream, float* x, const float* y, int64_t n) {
  constexpr const char* kOp = "add";
  SUTURE_REQUIRE(n >= 0, kOp, "n={}", n);
  if (n == 0) return {};
  SUTURE_REQUIRE(x != nullptr && y != nullptr, kOp, "x or y is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: add_cpu(as_cpu(stream), x, y, n); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

}  // namespace suture
