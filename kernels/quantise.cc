#include "kernels/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/cpu/half.h"

namespace suture {
namespace {

constexpr int64_t kBlock = 32;

// Adding 1.5 * 2^23 and taking it off again rounds to the nearest even; vectors have no other way
// on every processor.
float rounded(float value) {
  constexpr float kMagic = 12582912.0F;
  return (value + kMagic) - kMagic;
}

// Also of what is no number: the order of the arguments matters.
float bounded(float value) { return std::max(-127.0F, std::min(127.0F, value)); }

// Magnitude of a block, in lanes that can be a vector.
float largest(const float* values) {
  std::array<float, 8> lanes{};
  for (int64_t i = 0; i < kBlock; ++i) {
    float& lane = lanes[static_cast<size_t>(i) % lanes.size()];
    lane = std::max(lane, std::abs(values[i]));
  }
  return *std::ranges::max_element(lanes);
}

}  // namespace

void quantise_q8_0(const float* values, int64_t elements, std::byte* blocks) {
  for (int64_t at = 0; at < elements; at += kBlock, values += kBlock) {
    const uint16_t scale = float_to_half(largest(values) / 127);
    const float stored = half_to_float(scale);
    const float inverse = stored > 0 ? 1 / stored : 0;
    std::memcpy(blocks, &scale, sizeof(scale));
    blocks += sizeof(scale);
    std::array<int8_t, kBlock> q{};
    for (size_t i = 0; i < q.size(); ++i)
      q[i] = static_cast<int8_t>(rounded(bounded(values[i] * inverse)));
    std::memcpy(blocks, q.data(), q.size());
    blocks += q.size();
  }
}

}  // namespace suture
