#include "kernels/elementwise.h"

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {

namespace {

using GateCpu = void (*)(CpuStream& stream, const float* gate, const float* up, int64_t n,
                         float* out);

Status run_gate(Stream& stream, const char* op, GateCpu on_cpu, const float* gate, const float* up,
                int64_t n, float* out) {
  SUTURE_REQUIRE(n >= 0, op, "n={}", n);
  if (n == 0) return {};
  SUTURE_REQUIRE(gate != nullptr && up != nullptr && out != nullptr, op, "gate, up or out is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: on_cpu(as_cpu(stream), gate, up, n, out); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(op);
}

}  // namespace

Status gated_silu(Stream& stream, const float* gate, const float* up, int64_t n, float* out) {
  return run_gate(stream, "gated_silu", gated_silu_cpu, gate, up, n, out);
}

Status gated_gelu_tanh(Stream& stream, const float* gate, const float* up, int64_t n, float* out) {
  return run_gate(stream, "gated_gelu_tanh", gated_gelu_tanh_cpu, gate, up, n, out);
}

Status soft_cap(Stream& stream, float* x, int64_t n, float cap) {
  constexpr const char* kOp = "soft_cap";
  SUTURE_REQUIRE(n >= 0, kOp, "n={}", n);
  SUTURE_REQUIRE(cap > 0, kOp, "cap={}", cap);
  if (n == 0) return {};
  SUTURE_REQUIRE(x != nullptr, kOp, "x is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: soft_cap_cpu(as_cpu(stream), x, n, cap); return {};
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
