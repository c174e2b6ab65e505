// Activations to 8 bits, 32 to a scale.
#pragma once

#include "kernels/cpu/vectors_inl.h"

namespace suture {
namespace {

using I8x8 = int8_t __attribute__((vector_size(8)));

SUTURE_INLINE F32x8 absolute(F32x8 v) {
  return reinterpret_cast<F32x8>(reinterpret_cast<U32x8>(v) & 0x7fffffffu);
}

SUTURE_INLINE F32x8 larger(F32x8 a, F32x8 b) { return a > b ? a : b; }

SUTURE_INLINE float largest(F32x8 v) {
  v = larger(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
  v = larger(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
  return larger(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6))[0];
}

SUTURE_INLINE int32_t total(I32x8 v) {
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
  return v[0] + v[1];
}

// What is left of the values in 8 bits: bounded, also where x was no number. g++ 12 widens vectors
// of bytes one by one.
SUTURE_INLINE I32x8 lowest_bytes(I32x8 v) {
  return reinterpret_cast<I32x8>(reinterpret_cast<U32x8>(v) << 24) >> 24;
}

SUTURE_INLINE void quantise_group(const float* x, int64_t group, const QuantisedRow& row) {
  F32x8 parts[4];
  for (int i = 0; i < 4; ++i) parts[i] = load<F32x8>(x + 8 * i);
  const float most = largest(larger(larger(absolute(parts[0]), absolute(parts[1])),
                                    larger(absolute(parts[2]), absolute(parts[3]))));
  const float scale = most / 127;
  const F32x8 inverse = splat(most > 0 ? 127 / most : 0.0f);
  const F32x8 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to the nearest even
  I32x8 totals[2] = {};
  for (int i = 0; i < 4; ++i) {
    const F32x8 rounded = (parts[i] * inverse + magic) - magic;
    const I32x8 q = __builtin_convertvector(rounded, I32x8);
    totals[i / 2] += lowest_bytes(q);
    store(row.q + kQuantGroup * group + 8 * i, __builtin_convertvector(q, I8x8));
  }
  row.scale[group] = scale;
  for (int half = 0; half < 2; ++half) row.total[2 * group + half] = total(totals[half]);
  row.sum[group] = scale * static_cast<float>(row.total[2 * group] + row.total[2 * group + 1]);
}

// As MatmulKernels::quantise.
inline void quantise_row(const float* x, int64_t n, const QuantisedRow& row) {
  for (int64_t g = 0; g < n / kQuantGroup; ++g) quantise_group(x + kQuantGroup * g, g, row);
}

}  // namespace
}  // namespace suture
