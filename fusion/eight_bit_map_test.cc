#include "fusion/eight_bit_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "fusion/projector_build.h"
#include "kernels/test_kv.h"

namespace suture {
namespace {

constexpr int64_t kIn = 192, kOut = 40, kRows = 50;

// A map whose columns differ by up to `spread` times, and rows of x that make up for it, as rows of
// K do whose channels are of very different size.
class EightBitMapTest : public testing::Test {
 protected:
  void make(float spread) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> sizes(kIn), weights;
    for (float& size : sizes) size = std::pow(spread, normal(random) / 3);
    for (int64_t i = 0; i < kOut * kIn; ++i)
      weights.push_back(0.01F * normal(random) / sizes[static_cast<size_t>(i % kIn)]);
    x_.clear();
    for (int64_t i = 0; i < kRows * kIn; ++i)
      x_.push_back(normal(random) * sizes[static_cast<size_t>(i % kIn)]);
    weights_ = round_weights(DType::kBf16, weights).value();
    map_ = {.weights = weights_,
            .mean = std::vector<float>(kIn),
            .gamma = std::vector<float>(kOut, 1),
            .beta = std::vector<float>(kOut)};
  }

  // [rows][out] by the integer kernels, with these scales.
  std::vector<float> product(const std::vector<float>& scales, MatmulPath path) const {
    const auto stream = cpu_stream(1);
    const EightBitMap made = eight_bit_map(*device_, map_, scales).value();
    std::vector<float> x = x_, out(kRows * kOut);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= scales[i % kIn];
    EXPECT_TRUE(matmul(
        *stream,
        MatmulArgs{
            .x = x.data(), .w = made.weights, .out = out.data(), .n_rows = kRows, .path = path}));
    for (size_t i = 0; i < out.size(); ++i) out[i] *= made.gamma[i % kOut];
    return out;
  }

  // Its distance to the same in float64, relative to the size of the rows.
  double error(const std::vector<float>& scales, MatmulPath path) const {
    const std::vector<float> out = product(scales, path);
    std::vector<float> w(weights_.size());
    EXPECT_TRUE(dequantise(DType::kBf16, reinterpret_cast<const std::byte*>(weights_.data()),
                           std::ssize(w), w.data()));
    double error = 0, size = 0;
    for (size_t row = 0; row < kRows; ++row)
      for (size_t o = 0; o < kOut; ++o) {
        double sum = 0;
        for (size_t i = 0; i < kIn; ++i)
          sum += static_cast<double>(w[o * kIn + i]) * static_cast<double>(x_[row * kIn + i]);
        error += std::pow(static_cast<double>(out[row * kOut + o]) - sum, 2);
        size += sum * sum;
      }
    return std::sqrt(error / size);
  }

  std::unique_ptr<Device> device_ = open_device("cpu", 1).value();
  std::vector<uint16_t> weights_;
  LinearMap map_;
  std::vector<float> x_;  // [rows][in]
};

// Each factor is off by a step of its block over sqrt(12); of 32 normal numbers the largest is 2.4
// standard deviations away or so: 2.4 / 127 / sqrt(12) * sqrt(2) = 0.8 %.
constexpr double kTolerance = 1.2e-2;

TEST_F(EightBitMapTest, ScaledColumnsMakeUpForChannelsOfAnySize) {
  for (const MatmulPath path : {MatmulPath::kPrefill, MatmulPath::kDecode})
    for (const float spread : {1.0F, 100.0F}) {
      make(spread);
      const LinearMap* const maps[] = {&map_};
      EXPECT_LT(error(column_scales(maps), path), kTolerance) << spread;
    }
  EXPECT_GT(error(std::vector<float>(kIn, 1), MatmulPath::kDecode), 3 * kTolerance)
      << "without scales the case would be no test";
}

TEST_F(EightBitMapTest, MapsOfOneInputShareTheirScales) {
  make(100);
  LinearMap large = map_;
  std::vector<uint16_t> more = weights_;
  for (uint16_t& bits : more) bits += 4 << 7;  // times 16, in BF16
  large.weights = more;
  const LinearMap* const one[] = {&map_};
  const LinearMap* const both[] = {&map_, &large};
  const std::vector<float> alone = column_scales(one);
  const std::vector<float> together = column_scales(both);
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(together[i] / alone[i], 1, 1e-5);
}

TEST_F(EightBitMapTest, ColumnsAndMapsOfZerosAddNothing) {
  make(1);
  for (int64_t o = 0; o < kOut; ++o)
    for (int64_t i = 64; i < kIn; ++i) weights_[static_cast<size_t>(o * kIn + i)] = 0;
  const LinearMap* const maps[] = {&map_};
  EXPECT_LT(error(column_scales(maps), MatmulPath::kDecode), kTolerance);
  std::fill(weights_.begin(), weights_.end(), uint16_t{0});
  EXPECT_EQ(product(column_scales(maps), MatmulPath::kDecode), std::vector<float>(kRows * kOut));
}

TEST_F(EightBitMapTest, ColumnsAreWholeBlocks) {
  make(1);
  EXPECT_TRUE(fits_eight_bits(map_));
  EXPECT_GT(eight_bit_bytes(map_), static_cast<uint64_t>(kIn * kOut));
  map_.mean.resize(kIn - 8);
  EXPECT_FALSE(fits_eight_bits(map_));
  EXPECT_EQ(eight_bit_bytes(map_), 0u);
}

}  // namespace
}  // namespace suture
