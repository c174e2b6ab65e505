// Decoding: activations in 8 bits, integer dot products with the unpacked weights.
//
// The target's .cc defines, besides what formats_inl.h asks for:
//   F32x8 multiply_add(F32x8 a, F32x8 b, F32x8 c)   a * b + c
//   I32x8 dot_unsigned(U8x32 w, I8x32 x)            w below 32; see below for the lanes
//   I32x8 dot_signed(I8x32 w, I8x32 x)
// Lanes 0 .. 3 of a dot product hold sums over elements 0 .. 15, lanes 4 .. 7 over 16 .. 31.
#pragma once

#include "kernels/cpu/formats_inl.h"
#include "kernels/cpu/quantise_inl.h"

namespace suture {
namespace {

inline constexpr int kMaxSharedRows = 4;  // rows of x that meet one unpacking of the weights
// Bytes ahead: the hardware stops at page ends, we do not.
inline constexpr int64_t kPrefetch = 2048;

struct Sums {
  F32x8 even = {}, odd = {};  // two chains, so that one addition need not wait for the last
  F32x8 minimum = {};
};

template <typename Format>
SUTURE_INLINE I32x8 dot(U8x32 w, I8x32 x) {
  if constexpr (Format::kSigned) {
    return dot_signed(reinterpret_cast<I8x32>(w), x);
  } else {
    return dot_unsigned(w, x);
  }
}

// Adds the products of one chunk with groups [group, group + n) of one row of x.
template <typename Format>
SUTURE_INLINE void add_chunk(const Chunk& chunk, int n, const QuantisedRow& x, int64_t group,
                             Sums& sums) {
  alignas(32) float scale[16];
  const F32x8 xs = load<F32x8>(x.scale + group);
  if constexpr (Format::kFine) {
    store(scale,
          load<F32x8>(chunk.scale) * __builtin_shufflevector(xs, xs, 0, 0, 1, 1, 2, 2, 3, 3));
    store(scale + 8,
          load<F32x8>(chunk.scale + 8) * __builtin_shufflevector(xs, xs, 4, 4, 5, 5, 6, 6, 7, 7));
  } else {
    store(scale, load<F32x8>(chunk.scale) * xs);
  }
  for (int g = 0; g < n; ++g) {
    const I8x32 q = load<I8x32>(x.q + kQuantGroup * (group + g));
    const F32x8 products = to_float(dot<Format>(chunk.q[g], q));
    F32x8 factor;
    if constexpr (Format::kFine) {
      const float s = scale[2 * g], t = scale[2 * g + 1];
      factor = F32x8{s, s, s, s, t, t, t, t};
    } else {
      factor = splat(scale[g]);
    }
    F32x8& chain = g % 2 == 0 ? sums.even : sums.odd;
    chain = multiply_add(products, factor, chain);
  }
  if constexpr (Format::kHasMinimum && Format::kFine) {
    const float* x_sums = x.sum16 + 2 * group;
    sums.minimum = multiply_add(chunk.minimum[0], load<F32x8>(x_sums), sums.minimum);
    sums.minimum = multiply_add(chunk.minimum[1], load<F32x8>(x_sums + 8), sums.minimum);
  } else if constexpr (Format::kHasMinimum) {
    sums.minimum = multiply_add(chunk.minimum[0], load<F32x8>(x.sum + group), sums.minimum);
  }
}

// One row of w with kRows rows of x.
template <typename Format, int kRows>
SUTURE_INLINE void dot_quantised(const std::byte* w, const DecodeJob& job, int64_t row,
                                 float* result) {
  const QuantisedRow* x = job.qx + row;
  const int64_t n_groups = job.cols / kQuantGroup;
  Sums sums[kRows];
  Chunk chunk;
  int64_t group = 0;
  for (; group + kGroups <= n_groups; group += kGroups, w += Format::kChunkBytes) {
    for (int64_t line = 0; line < Format::kChunkBytes; line += 64) {
      __builtin_prefetch(w + kPrefetch + line);
    }
    Format::unpack(w, kGroups, chunk);
    for (int r = 0; r < kRows; ++r) add_chunk<Format>(chunk, kGroups, x[r], group, sums[r]);
  }
  if (group < n_groups) {
    const int rest = static_cast<int>(n_groups - group);
    Format::unpack(w, rest, chunk);
    for (int r = 0; r < kRows; ++r) add_chunk<Format>(chunk, rest, x[r], group, sums[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    result[r] = sum(sums[r].even + sums[r].odd);
    if constexpr (Format::kHasMinimum) result[r] -= sum(sums[r].minimum);
  }
}

// Plain weights meet the activations as they are.
template <typename Format, int kRows>
SUTURE_INLINE void dot_plain(const std::byte* w, const DecodeJob& job, int64_t row, float* result) {
  const float* x = job.x + row * job.cols;
  F32x8 sums[kRows][4] = {};
  int64_t k = 0;
  for (; k + 32 <= job.cols; k += 32) {
    __builtin_prefetch(w + k * Format::kBytes + kPrefetch);
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
struct Quantised {
  template <int kRows>
  static SUTURE_INLINE void dot(const std::byte* w, const DecodeJob& job, int64_t row, float* out) {
    dot_quantised<Format, kRows>(w, job, row, out);
  }
};

template <typename Format>
struct Plain {
  template <int kRows>
  static SUTURE_INLINE void dot(const std::byte* w, const DecodeJob& job, int64_t row, float* out) {
    dot_plain<Format, kRows>(w, job, row, out);
  }
};

template <typename Kind>
void decode_rows(const DecodeJob& job, int64_t begin, int64_t end) {
  for (int64_t m = begin; m < end; ++m) {
    const std::byte* w = job.w + m * job.row_bytes;
    for (int64_t row = 0; row < job.n_rows; row += kMaxSharedRows) {
      float result[kMaxSharedRows];
      const int64_t n = job.n_rows - row < kMaxSharedRows ? job.n_rows - row : kMaxSharedRows;
      switch (n) {
        case 1: Kind::template dot<1>(w, job, row, result); break;
        case 2: Kind::template dot<2>(w, job, row, result); break;
        case 3: Kind::template dot<3>(w, job, row, result); break;
        default: Kind::template dot<4>(w, job, row, result); break;
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
