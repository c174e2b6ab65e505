// Shifting and scaling of rows by one number for each column, float32 in device memory.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/device.h"

namespace suture {

// Some of the groups of columns of x side by side, less the mean of each column, times its scale.
struct CentreGroupsArgs {
  const float* x = nullptr;  // [n_rows][n_groups][width]
  int64_t n_rows = 0;
  int64_t n_groups = 0;
  int64_t width = 0;
  std::span<const int32_t> groups;  // those taken, host memory
  const float* mean = nullptr;      // [groups][width]
  const float* scale = nullptr;     // [groups][width]; nullptr = 1
  float* out = nullptr;             // [n_rows][groups][width], not x
  int64_t out_stride = 0;           // from row to row of out; 0 = one behind the other
};

Status centre_groups(Stream& stream, const CentreGroupsArgs& args);

// x = scale * x + shift, in place.
struct ScaleShiftArgs {
  float* x = nullptr;            // [n_rows][width]
  const float* scale = nullptr;  // [width]
  const float* shift = nullptr;  // [width]
  int64_t n_rows = 0;
  int64_t width = 0;
};

Status scale_shift(Stream& stream, const ScaleShiftArgs& args);

}  // namespace suture
