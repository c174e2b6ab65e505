#include "kernels/packed_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cpu/cpu_matmul.h"
#include "kernels/cpu/packed_format.h"

namespace suture {
namespace {

int64_t tiles_of(int64_t rows) { return (rows + kPackedRows - 1) / kPackedRows; }

}  // namespace

bool is_packable(DType dtype) { return packed_format(dtype).low_bits != 0; }

Result<int64_t> packed_tile_bytes(DType dtype, int64_t cols) {
  const int64_t block = dtype_info(dtype).block_elements;
  if (!is_packable(dtype) || cols <= 0 || cols % block != 0 || cols > INT32_MAX)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("rows of {} {} cannot be packed", cols, dtype_name(dtype)),
                "packed weights");
  return packed_format(dtype).tile_bytes(cols);
}

Result<int64_t> packed_bytes(DType dtype, int64_t rows, int64_t cols) {
  SUTURE_ASSIGN_OR_RETURN(const int64_t tile, packed_tile_bytes(dtype, cols));
  int64_t bytes = 0;
  if (rows < 0 || rows > INT64_MAX - kPackedRows ||
      __builtin_mul_overflow(tiles_of(rows), tile, &bytes))
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} rows of {}", rows, cols),
                "packed weights");
  return bytes;
}

Status pack_tiles(const WeightView& matrix, int64_t begin, int64_t end, std::byte* out) {
  SUTURE_ASSIGN_OR_RETURN(const int64_t tile_bytes, packed_tile_bytes(matrix.dtype, matrix.cols));
  if (matrix.layout != WeightLayout::kRows || begin < 0 || begin > end ||
      end > tiles_of(matrix.rows) || matrix.data == nullptr || out == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("tiles {} to {} of {} rows", begin, end, matrix.rows),
                "packed weights");
  const auto pack = matmul_kernels(best_isa()).pack[static_cast<size_t>(matrix.dtype)];
  const int64_t row_bytes = dtype_bytes(matrix.dtype, matrix.cols).value();
  for (int64_t tile = begin; tile < end; ++tile, out += tile_bytes) {
    const int64_t row = tile * kPackedRows;
    const int64_t n_rows = std::min(kPackedRows, matrix.rows - row);
    pack(matrix.data + row * row_bytes, row_bytes, n_rows, matrix.cols, out);
  }
  return {};
}

}  // namespace suture
