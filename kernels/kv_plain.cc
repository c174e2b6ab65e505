#include "kernels/kv_plain.h"

#include <cmath>

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {
namespace {

constexpr const char* kOp = "kv_plain";

Status check_layer(const KvPlainLayer& layer) {
  SUTURE_REQUIRE(layer.kv.base != nullptr && layer.kv.block_ids != nullptr, kOp, "no blocks");
  SUTURE_REQUIRE(layer.frequencies != nullptr, kOp, "frequencies is null");
  SUTURE_REQUIRE(std::isfinite(layer.attention_factor) && layer.attention_factor > 0, kOp,
                 "attention_factor={}", layer.attention_factor);
  return {};
}

}  // namespace

Status kv_plain(Stream& stream, const KvPlainArgs& args) {
  SUTURE_RETURN_IF_ERROR(check_kv_shape(args.shape, kOp));
  SUTURE_REQUIRE(args.shape.head_dim % 2 == 0, kOp, "head_dim={}", args.shape.head_dim);
  SUTURE_REQUIRE(args.n_rows >= 0, kOp, "n_rows={}", args.n_rows);
  if (args.n_rows == 0 || args.layers.empty()) return {};
  for (const KvPlainLayer& layer : args.layers) SUTURE_RETURN_IF_ERROR(check_layer(layer));
  SUTURE_REQUIRE(args.entries != nullptr && args.positions != nullptr, kOp,
                 "entries or positions is null");
  SUTURE_REQUIRE(args.key != nullptr && args.value != nullptr, kOp, "key or value is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: kv_plain_cpu(as_cpu(stream), args); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

}  // namespace suture
