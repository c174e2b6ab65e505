// Fixed-size vectors in GCC's own notation, which any target lowers to what it has.
//
// matmul_<isa>.cc compile these *_inl.h files, each with the options of its target
// (kernels/CMakeLists.txt). Everything in them has internal linkage and no function of the standard
// library is used: the linker must never pick code for one instruction set where another was meant.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul_kernels.h"

#define SUTURE_INLINE inline __attribute__((always_inline))
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors never cross a function that is not inlined

namespace suture {
namespace {

using I8x32 = int8_t __attribute__((vector_size(32)));
using U8x16 = uint8_t __attribute__((vector_size(16)));
using U8x32 = uint8_t __attribute__((vector_size(32)));
using U16x8 = uint16_t __attribute__((vector_size(16)));
using U16x16 = uint16_t __attribute__((vector_size(32)));
using U32x8 = uint32_t __attribute__((vector_size(32)));
using I32x8 = int32_t __attribute__((vector_size(32)));
using F32x4 = float __attribute__((vector_size(16)));
using F32x8 = float __attribute__((vector_size(32)));
using F32x16 = float __attribute__((vector_size(64)));

template <typename V>
SUTURE_INLINE V load(const void* source) {
  V value;
  __builtin_memcpy(&value, source, sizeof(V));
  return value;
}

template <typename V>
SUTURE_INLINE void store(void* target, V value) {
  __builtin_memcpy(target, &value, sizeof(V));
}

SUTURE_INLINE F32x8 splat(float x) { return F32x8{x, x, x, x, x, x, x, x}; }

SUTURE_INLINE U8x32 concat(U8x16 low, U8x16 high) {
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                                 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
}

// Shifts whole 16-bit lanes: callers mask off what crosses from the neighbouring byte.
template <int kBits>
SUTURE_INLINE U8x32 shift_right(U8x32 v) {
  return reinterpret_cast<U8x32>(reinterpret_cast<U16x16>(v) >> kBits);
}
template <int kBits>
SUTURE_INLINE U8x32 shift_left(U8x32 v) {
  return reinterpret_cast<U8x32>(reinterpret_cast<U16x16>(v) << kBits);
}

// Sum of the lanes in one fixed order.
SUTURE_INLINE float sum(F32x8 v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

SUTURE_INLINE F32x8 to_float(I32x8 v) { return __builtin_convertvector(v, F32x8); }

}  // namespace
}  // namespace suture
