#include "kernels/kv_map.h"

#include <cmath>

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {
namespace {

constexpr const char* kOp = "kv_map";

Status check_rotation(const KvRotation& rotation) {
  SUTURE_REQUIRE(rotation.frequencies != nullptr && rotation.positions != nullptr, kOp,
                 "frequencies or positions is null");
  SUTURE_REQUIRE(std::isfinite(rotation.attention_factor) && rotation.attention_factor > 0, kOp,
                 "attention_factor={}", rotation.attention_factor);
  return {};
}

}  // namespace

Status kv_map(Stream& stream, const KvMapArgs& args) {
  SUTURE_RETURN_IF_ERROR(check_kv_shape(args.from_shape, kOp));
  SUTURE_RETURN_IF_ERROR(check_kv_shape(args.to_shape, kOp));
  SUTURE_REQUIRE(args.from_shape.n_kv_heads == args.to_shape.n_kv_heads &&
                     args.from_shape.head_dim == args.to_shape.head_dim,
                 kOp, "{} heads of {} and {} heads of {}", args.from_shape.n_kv_heads,
                 args.from_shape.head_dim, args.to_shape.n_kv_heads, args.to_shape.head_dim);
  SUTURE_REQUIRE(args.to_shape.head_dim % 2 == 0, kOp, "head_dim={}", args.to_shape.head_dim);
  SUTURE_REQUIRE(args.n_rows >= 0 && args.first_entry >= 0, kOp, "n_rows={} first_entry={}",
                 args.n_rows, args.first_entry);
  if (args.n_rows == 0) return {};
  SUTURE_REQUIRE(args.from.base != nullptr && args.from.block_ids != nullptr, kOp, "no blocks");
  SUTURE_REQUIRE(args.to.base != nullptr && args.to.block_ids != nullptr, kOp, "no blocks");
  SUTURE_REQUIRE(args.from_entries != nullptr, kOp, "from_entries is null");
  SUTURE_RETURN_IF_ERROR(check_rotation(args.from_rotation));
  SUTURE_RETURN_IF_ERROR(check_rotation(args.to_rotation));
  switch (stream.kind()) {
    case DeviceKind::kCpu: kv_map_cpu(as_cpu(stream), args); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

}  // namespace suture
