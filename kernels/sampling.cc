#include "kernels/sampling.h"

#include <limits>

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {

Status top_k(Stream& stream, const float* logits, int64_t n, int64_t k, int32_t* ids,
             float* values) {
  constexpr const char* kOp = "top_k";
  SUTURE_REQUIRE(0 <= k && k <= n && n <= std::numeric_limits<int32_t>::max(), kOp, "k={} n={}", k,
                 n);
  if (k == 0) return {};
  SUTURE_REQUIRE(logits != nullptr && ids != nullptr && values != nullptr, kOp,
                 "logits, ids or values is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: top_k_cpu(logits, n, k, ids, values); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

Status penalize(Stream& stream, const float* logits, int64_t n, const int32_t* ids, int64_t n_ids,
                float penalty, float* out) {
  constexpr const char* kOp = "penalize";
  SUTURE_REQUIRE(n > 0 && 0 <= n_ids && n_ids <= n, kOp, "n={} n_ids={}", n, n_ids);
  SUTURE_REQUIRE(penalty > 0, kOp, "penalty={}", penalty);
  SUTURE_REQUIRE(logits != nullptr && out != nullptr && (ids != nullptr || n_ids == 0), kOp,
                 "logits, ids or out is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: penalize_cpu(logits, n, ids, n_ids, penalty, out); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

Status log_sum_exp(Stream& stream, const float* logits, int64_t n, float* out) {
  constexpr const char* kOp = "log_sum_exp";
  SUTURE_REQUIRE(n > 0, kOp, "n={}", n);
  SUTURE_REQUIRE(logits != nullptr && out != nullptr, kOp, "logits or out is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: log_sum_exp_cpu(as_cpu(stream), logits, n, out); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

}  // namespace suture
