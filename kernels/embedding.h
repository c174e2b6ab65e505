// Rows of the embedding table.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/matmul.h"

namespace suture {

// out[r] = table[ids[r]] * scale; ids [n_rows] in device memory must be below table.rows.
Status embedding(Stream& stream, const WeightView& table, const int32_t* ids, int64_t n_rows,
                 float scale, float* out);

}  // namespace suture
