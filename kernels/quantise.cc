#include "kernels/quantise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/half.h"

namespace suture {
namespace {

constexpr int64_t kBlock = 32;

}  // namespace

void quantise_q8_0(const float* values, int64_t elements, std::byte* blocks) {
  for (int64_t at = 0; at < elements; at += kBlock, values += kBlock) {
    float most = 0;
    for (int64_t i = 0; i < kBlock; ++i) most = std::max(most, std::abs(values[i]));
    const uint16_t scale = float_to_half(most / 127);
    const float stored = half_to_float(scale);
    const float inverse = stored > 0 ? 1 / stored : 0;
    std::memcpy(blocks, &scale, sizeof(scale));
    blocks += sizeof(scale);
    for (int64_t i = 0; i < kBlock; ++i) {
      const float q = std::nearbyint(std::clamp(values[i] * inverse, -127.0F, 127.0F));
      *blocks++ = static_cast<std::byte>(static_cast<int8_t>(q));
    }
  }
}

}  // namespace suture
