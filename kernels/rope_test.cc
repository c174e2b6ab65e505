#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "kernels/test_kv.h"
#include "kernels/test_targets.h"

namespace suture {
namespace {

std::vector<float> usual_frequencies(int32_t head_dim) {
  std::vector<float> frequencies;
  for (int32_t i = 0; i < head_dim; i += 2) {
    frequencies.push_back(
        static_cast<float>(std::pow(10000.0, -i / static_cast<double>(head_dim))));
  }
  return frequencies;
}

void check_turning(int32_t dim) {
  std::mt19937 random(1);
  constexpr int32_t kHeads = 3;
  const std::vector<int32_t> positions = {0, 1, 7, -5, 8000, 131000};
  const int64_t n_rows = std::ssize(positions);
  const auto x = random_values(random, n_rows * kHeads * dim);
  const auto frequencies = usual_frequencies(dim);
  for (RopePairing pairing : {RopePairing::kHalves, RopePairing::kNeighbours}) {
    std::vector<float> out(x.size());
    const RopeArgs args{.x = x.data(),
                        .out = out.data(),
                        .positions = positions.data(),
                        .position_shift = -3,
                        .frequencies = frequencies.data(),
                        .attention_factor = 1.25f,
                        .pairing = pairing,
                        .n_rows = n_rows,
                        .n_heads = kHeads,
                        .head_dim = dim};
    ASSERT_TRUE(rope(*cpu_stream(2), args).has_value());
    for (size_t row = 0; row < positions.size(); ++row) {
      for (size_t head = 0; head < kHeads; ++head) {
        for (size_t i = 0; i < static_cast<size_t>(dim) / 2; ++i) {
          const bool halves = pairing == RopePairing::kHalves;
          const size_t base = (row * kHeads + head) * static_cast<size_t>(dim);
          const size_t a = base + (halves ? i : 2 * i);
          const size_t b = base + (halves ? i + static_cast<size_t>(dim) / 2 : 2 * i + 1);
          const double angle = (positions[row] - 3) * static_cast<double>(frequencies[i]);
          const auto turned = std::complex<double>(x[a], x[b]) * std::polar(1.25, angle);
          ASSERT_NEAR(out[a], turned.real(), 1e-6) << "row " << row << " pair " << i;
          ASSERT_NEAR(out[b], turned.imag(), 1e-6) << "row " << row << " pair " << i;
        }
      }
    }
  }
}

TEST(RopeTest, TurnsPairsAsComplexNumbers) {
  for_each_target([] {
    for (const int32_t dim : {2, 20, 64, 128, 256}) check_turning(dim);
  });
}

TEST(RopeTest, ShiftIsTheSameAsOtherPositionsAndWorksInPlace) {
  std::mt19937 random(2);
  const auto x = random_values(random, 10 * 2 * 16);
  const auto frequencies = usual_frequencies(16);
  std::vector<int32_t> positions(10), moved(10);
  for (int32_t i = 0; i < 10; ++i) {
    positions[static_cast<size_t>(i)] = 50 + i;
    moved[static_cast<size_t>(i)] = 50 + i - 100;
  }
  std::vector<float> shifted(x.size()), in_place = x;
  RopeArgs args{.x = x.data(),
                .out = shifted.data(),
                .positions = positions.data(),
                .position_shift = -100,
                .frequencies = frequencies.data(),
                .n_rows = 10,
                .n_heads = 2,
                .head_dim = 16};
  ASSERT_TRUE(rope(*cpu_stream(1), args).has_value());
  args.x = args.out = in_place.data();
  args.positions = moved.data();
  args.position_shift = 0;
  ASSERT_TRUE(rope(*cpu_stream(3), args).has_value());
  EXPECT_EQ(shifted, in_place);
}

TEST(RopeTest, RefusesArgumentsOutsideTheContract) {
  float x[2] = {1, 2}, frequency = 1;
  const int32_t position = 0;
  auto stream = cpu_stream(1);
  const RopeArgs good{.x = x,
                      .out = x,
                      .positions = &position,
                      .frequencies = &frequency,
                      .n_rows = 1,
                      .n_heads = 1,
                      .head_dim = 2};
  EXPECT_TRUE(rope(*stream, good).has_value());
  RopeArgs bad = good;
  bad.head_dim = 3;
  EXPECT_FALSE(rope(*stream, bad).has_value());
  bad = good;
  bad.frequencies = nullptr;
  EXPECT_FALSE(rope(*stream, bad).has_value());
  bad = good;
  bad.n_rows = -1;
  EXPECT_FALSE(rope(*stream, bad).has_value());
}

}  // namespace
}  // namespace suture
