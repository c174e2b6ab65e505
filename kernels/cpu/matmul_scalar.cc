// Portable: whatever the compiler makes of it on the baseline target. The reference of the others.
#include "kernels/cpu/half.h"
#include "kernels/cpu/vectors_inl.h"

namespace suture {
namespace {

SUTURE_INLINE F32x8 multiply_add(F32x8 a, F32x8 b, F32x8 c) { return a * b + c; }

SUTURE_INLINE F32x8 widen(const void* eight_int8) {
  using I8x8 = int8_t __attribute__((vector_size(8)));
  return __builtin_convertvector(load<I8x8>(eight_int8), F32x8);
}

SUTURE_INLINE F32x8 from_half(U16x8 halves) {
  F32x8 values;
  for (int i = 0; i < 8; ++i) values[i] = half_to_float(halves[i]);
  return values;
}

SUTURE_INLINE U8x32 lookup(U8x16 table, U8x32 index) {
  U8x32 values;
  for (int i = 0; i < 32; ++i) values[i] = table[index[i]];
  return values;
}

inline constexpr int kRowLanes = 8;

}  // namespace
}  // namespace suture

#include "kernels/cpu/row_vectors.h"

namespace suture {
namespace {

SUTURE_INLINE RowFloats rows_from_half(const void* halves) {
  return from_half(load<U16x8>(halves));
}

template <bool kSigned>
SUTURE_INLINE RowFloats rows_from_code(const void* bytes) {
  using U8x8 = uint8_t __attribute__((vector_size(8)));
  if constexpr (kSigned) {
    return widen(bytes);
  } else {
    return __builtin_convertvector(load<U8x8>(bytes), RowFloats);
  }
}

using RowHalfs = int16_t __attribute__((vector_size(4 * kRowLanes)));

// Sums of two neighbouring 16-bit products.
SUTURE_INLINE RowInts add_pairs(RowHalfs products) {
  const auto both = reinterpret_cast<U32x8>(products);
  return (reinterpret_cast<RowInts>(both << 16) >> 16) + (reinterpret_cast<RowInts>(both) >> 16);
}

// Even and odd bytes widened to 16 bits, which hold any product of a weight with an activation.
SUTURE_INLINE RowInts dot_quads(RowInts sums, RowBytes w, int32_t quad) {
  const auto words = reinterpret_cast<RowWords>(w);
  const auto x = reinterpret_cast<RowWords>(RowInts{} + quad);
  const auto even =
      reinterpret_cast<RowHalfs>(words & 255) * (reinterpret_cast<RowHalfs>(x << 8) >> 8);
  const auto odd = reinterpret_cast<RowHalfs>(words >> 8) * (reinterpret_cast<RowHalfs>(x) >> 8);
  return sums + add_pairs(even) + add_pairs(odd);
}
SUTURE_INLINE RowInts dot_wide_quads(RowInts sums, RowBytes w, int32_t quad) {
  return dot_quads(sums, w, quad);
}

}  // namespace
}  // namespace suture

#include "kernels/cpu/table_inl.h"

namespace suture {
constexpr MatmulKernels kMatmulScalar = make_kernels();
}
