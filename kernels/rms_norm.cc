#include "kernels/rms_norm.h"

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {

Status rms_norm(Stream& stream, const float* x, const float* weight, int64_t n_rows, int64_t width,
                float eps, float* out) {
  constexpr const char* kOp = "rms_norm";
  SUTURE_REQUIRE(n_rows >= 0 && width > 0, kOp, "n_rows={} width={}", n_rows, width);
  SUTURE_REQUIRE(eps >= 0, kOp, "eps={}", eps);
  if (n_rows == 0) return {};
  SUTURE_REQUIRE(x != nullptr && weight != nullptr && out != nullptr, kOp,
                 "x, weight or out is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu:
      rms_norm_cpu(as_cpu(stream), x, weight, n_rows, width, eps, out);
      return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

}  // namespace suture
