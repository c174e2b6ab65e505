// One number of K or V as it is stored, and its conversion (round to nearest even).
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/cpu/half.h"

namespace suture {

struct Half {
  uint16_t bits;
};

struct Bf16 {
  uint16_t bits;
};

inline float to_f32(float value) { return value; }
inline float to_f32(Half value) { return half_to_float(value.bits); }
inline float to_f32(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

inline void store(float value, float& target) { target = value; }
inline void store(float value, Half& target) { target.bits = float_to_half(value); }
inline void store(float value, Bf16& target) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t to_even = 0x7fff + ((bits >> 16) & 1);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;  // rounding up could make it infinite
  target.bits = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40 : (bits + to_even) >> 16);
}

}  // namespace suture
