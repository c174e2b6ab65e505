#include <cmath>
#include <vector>

#include "kernels/cpu/ops.h"

namespace suture {
namespace {

constexpr int64_t kGrain = 4;  // rows; fewer are not worth waking another thread

// cos and sin of one row's angles: [head_dim / 2] each.
struct Rotation {
  std::vector<float> cosine;
  std::vector<float> sine;

  void set(const RopeArgs& args, int64_t position) {
    const size_t half = static_cast<size_t>(args.head_dim) / 2;
    cosine.resize(half);
    sine.resize(half);
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * static_cast<double>(args.frequencies[i]);
      cosine[i] = static_cast<float>(std::cos(angle) * args.attention_factor);
      sine[i] = static_cast<float>(std::sin(angle) * args.attention_factor);
    }
  }
};

// Turns the pairs (x[i * step], x[i * step + distance]) of one head.
template <int kStep>
void rotate(const float* x, const Rotation& rotation, int64_t distance, float* out) {
  const int64_t half = static_cast<int64_t>(rotation.cosine.size());
  for (int64_t i = 0; i < half; ++i) {
    const float cosine = rotation.cosine[i], sine = rotation.sine[i];
    const float first = x[i * kStep], second = x[i * kStep + distance];
    out[i * kStep] = first * cosine - second * sine;
    out[i * kStep + distance] = second * cosine + first * sine;
  }
}

void rotate_rows(const RopeArgs& args, int64_t begin, int64_t end) {
  thread_local Rotation rotation;
  for (int64_t row = begin; row < end; ++row) {
    rotation.set(args, args.positions[row] + args.position_shift);
    for (int64_t head = row * args.n_heads; head < (row + 1) * args.n_heads; ++head) {
      const float* x = args.x + head * args.head_dim;
      float* out = args.out + head * args.head_dim;
      if (args.pairing == RopePairing::kHalves) {
        rotate<1>(x, rotation, args.head_dim / 2, out);
      } else {
        rotate<2>(x, rotation, 1, out);
      }
    }
  }
}

}  // namespace

void rope_cpu(CpuStream& stream, const RopeArgs& args) {
  stream.pool().parallel_for(
      args.n_rows, kGrain, [&](int64_t begin, int64_t end, int) { rotate_rows(args, begin, end); });
}

}  // namespace suture
