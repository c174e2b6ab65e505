#include "kernels/kv_rows.h"

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {

Status check_kv_shape(const KvShape& shape, const char* op) {
  SUTURE_REQUIRE(shape.n_kv_heads > 0 && shape.head_dim > 0, op, "n_kv_heads={} head_dim={}",
                 shape.n_kv_heads, shape.head_dim);
  const bool is_float =
      shape.dtype == DType::kF32 || shape.dtype == DType::kF16 || shape.dtype == DType::kBf16;
  SUTURE_REQUIRE(is_float, op, "dtype={}", dtype_name(shape.dtype));
  return {};
}

Status kv_append(Stream& stream, const KvAppendArgs& args) {
  constexpr const char* kOp = "kv_append";
  SUTURE_RETURN_IF_ERROR(check_kv_shape(args.shape, kOp));
  SUTURE_REQUIRE(args.n_rows >= 0 && args.first_entry >= 0, kOp, "n_rows={} first_entry={}",
                 args.n_rows, args.first_entry);
  if (args.n_rows == 0) return {};
  SUTURE_REQUIRE(args.key != nullptr && args.value != nullptr, kOp, "key or value is null");
  SUTURE_REQUIRE(args.kv.base != nullptr && args.kv.block_ids != nullptr, kOp, "no blocks");
  switch (stream.kind()) {
    case DeviceKind::kCpu: kv_append_cpu(as_cpu(stream), args); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

Status kv_gather(Stream& stream, const KvGatherArgs& args) {
  constexpr const char* kOp = "kv_gather";
  SUTURE_RETURN_IF_ERROR(check_kv_shape(args.shape, kOp));
  SUTURE_REQUIRE(0 <= args.begin && args.begin <= args.end, kOp, "begin={} end={}", args.begin,
                 args.end);
  if (args.begin == args.end) return {};
  SUTURE_REQUIRE(args.key != nullptr && args.value != nullptr, kOp, "key or value is null");
  SUTURE_REQUIRE(args.kv.base != nullptr && args.kv.block_ids != nullptr, kOp, "no blocks");
  switch (stream.kind()) {
    case DeviceKind::kCpu: kv_gather_cpu(as_cpu(stream), args); return {};
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

}  // namespace suture
