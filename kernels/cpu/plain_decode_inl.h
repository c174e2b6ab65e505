// Decoding with plain weights: they meet the activations as they are, in float32.
//
// The target's .cc defines, besides what formats_inl.h asks for:
//   F32x8 multiply_add(F32x8 a, F32x8 b, F32x8 c)   a * b + c
#pragma once

#include "kernels/cpu/formats_inl.h"

namespace suture {
namespace {

// Bytes ahead: the hardware stops at page ends, we do not.
inline constexpr int64_t kPlainPrefetch = 2048;

// One row of w with kRows rows of x.
template <typename Format, int kRows>
SUTURE_INLINE void dot_plain(const std::byte* w, const PlainJob& job, int64_t row, float* result) {
  const float* x = job.x + row * job.cols;
  F32x8 sums[kRows][4] = {};
  int64_t k = 0;
  for (; k + 32 <= job.cols; k += 32) {
    __builtin_prefetch(w + k * Format::kBytes + kPlainPrefetch);
    for (int part = 0; part < 4; ++part) {
      const int64_t i = k + 8 * part;
      const F32x8 weights = Format::load8(w + i * Format::kBytes);
      for (int r = 0; r < kRows; ++r) {
        sums[r][part] = multiply_add(weights, load<F32x8>(x + r * job.cols + i), sums[r][part]);
      }
    }
  }
  for (; k < job.cols; k += 8) {
    const int64_t n = job.cols - k < 8 ? job.cols - k : 8;
    const F32x8 weights = load_part<Format>(w + k * Format::kBytes, n);
    for (int r = 0; r < kRows; ++r) {
      const auto* rest = reinterpret_cast<const std::byte*>(x + r * job.cols + k);
      sums[r][0] = multiply_add(weights, load_part<F32>(rest, n), sums[r][0]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    result[r] = sum((sums[r][0] + sums[r][2]) + (sums[r][1] + sums[r][3]));
  }
}

template <typename Format>
void decode_rows(const PlainJob& job, int64_t begin, int64_t end) {
  for (int64_t m = begin; m < end; ++m) {
    const std::byte* w = job.w + m * job.row_bytes;
    for (int64_t row = 0; row < job.n_rows; row += kMaxTileX) {
      float result[kMaxTileX];
      const int64_t n = job.n_rows - row < kMaxTileX ? job.n_rows - row : kMaxTileX;
      switch (n) {
        case 1: dot_plain<Format, 1>(w, job, row, result); break;
        case 2: dot_plain<Format, 2>(w, job, row, result); break;
        case 3: dot_plain<Format, 3>(w, job, row, result); break;
        default: dot_plain<Format, 4>(w, job, row, result); break;
      }
      for (int64_t r = 0; r < n; ++r) {
        job.out[(row + r) * job.out_stride + m] =
            job.bias != nullptr ? result[r] + job.bias[m] : result[r];
      }
    }
  }
}

}  // namespace
}  // namespace suture
