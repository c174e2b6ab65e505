// Quantised weights in the order in which the CPU's kernels read them: made once when a model is
// loaded, about the size of the file's own, the same for every instruction set.
//
// Rows are taken 16 at a time into tiles, one after another in memory, of packed_tile_bytes() each;
// what a tile looks like inside is in kernels/cpu/packed_format.h. The last tile is filled up with
// rows of zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "kernels/matmul.h"

namespace suture {

inline constexpr int64_t kPackedRows = 16;
// Changes with the layout: part of the name under which processes share packed weights.
inline constexpr int kPackedVersion = 2;

// Whether the type is packed: the quantised ones are, plain ones stay in rows.
bool is_packable(DType dtype);

// Bytes of 16 rows of `cols` columns, a multiple of 64. kInvalidArgument where the type is not
// packable or the columns are not whole blocks.
Result<int64_t> packed_tile_bytes(DType dtype, int64_t cols);

// Bytes of a whole matrix.
Result<int64_t> packed_bytes(DType dtype, int64_t rows, int64_t cols);

// Packs tiles [begin, end) of a matrix in rows (host memory) to `out`, the first of these tiles.
// Tiles are independent: threads may share a matrix out. `out` is aligned to 64 bytes.
Status pack_tiles(const WeightView& matrix, int64_t begin, int64_t end, std::byte* out);

}  // namespace suture
