#include "kernels/embedding.h"

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {

Status embedding(Stream& stream, const WeightView& table, const int32_t* ids, int64_t n_rows,
                 float scale, float* out) {
  constexpr const char* kOp = "embedding";
  SUTURE_REQUIRE(n_rows >= 0 && table.rows > 0 && table.cols > 0, kOp,
                 "n_rows={} table.rows={} table.cols={}", n_rows, table.rows, table.cols);
  SUTURE_REQUIRE(dtype_bytes(table.dtype, table.cols).has_value(), kOp, "dtype={} table.cols={}",
                 dtype_name(table.dtype), table.cols);
  if (n_rows == 0) return {};
  SUTURE_REQUIRE(table.data != nullptr && ids != nullptr && out != nullptr, kOp,
                 "table, ids or out is null");
  switch (stream.kind()) {
    case DeviceKind::kCpu: return embedding_cpu(as_cpu(stream), table, ids, n_rows, scale, out);
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

}  // namespace suture
