#include <fmt/format.h>

#include "kernels/cpu/ops.h"

namespace suture {
namespace {

void embed_row(const WeightView& table, int64_t id, float scale, float* out) {
  const int64_t row_bytes = *dtype_bytes(table.dtype, table.cols);
  const Status status = dequantise(table.dtype, table.data + id * row_bytes, table.cols, out);
  SUTURE_CHECK(status.has_value(), "{}", status.error().message());
  if (scale == 1) return;
  for (int64_t i = 0; i < table.cols; ++i) out[i] *= scale;
}

}  // namespace

Status embedding_cpu(CpuStream& stream, const WeightView& table, const int32_t* ids, int64_t n_rows,
                     float scale, float* out) {
  for (int64_t row = 0; row < n_rows; ++row) {
    if (ids[row] < 0 || ids[row] >= table.rows) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("token id {} in row {} is outside a table of {} rows", ids[row], row,
                              table.rows),
                  "embedding");
    }
  }
  stream.pool().parallel_for(n_rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      embed_row(table, ids[row], scale, out + row * table.cols);
    }
  });
  return {};
}

}  // namespace suture
