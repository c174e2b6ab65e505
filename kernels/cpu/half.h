// IEEE half precision without instructions for it.
#pragma once

#include <bit>
#include <cstdint>

namespace suture {

inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity, or NaN with its payload
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  // Read as a float32 the exponent is 112 too small; the product is exact, subnormals included.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

}  // namespace suture
