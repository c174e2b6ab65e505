#include "kernels/kv_plain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "kernels/test_kv.h"
#include "kernels/test_targets.h"

namespace suture {
namespace {

constexpr int64_t kTokens = 70, kRows = 5;
constexpr size_t kLayers = 3;

std::vector<float> frequencies_of(double theta, int32_t dim) {
  std::vector<float> frequencies;
  for (int32_t i = 0; i < dim; i += 2)
    frequencies.push_back(static_cast<float>(std::pow(theta, -i / static_cast<double>(dim))));
  return frequencies;
}

// Three layers of stored rows of which the outer two share a table.
class Layers {
 public:
  Layers(const KvShape& kv_shape, std::mt19937& random) : shape(kv_shape) {
    for (size_t l = 0; l < kLayers; ++l) sequences_.emplace_back(shape, kTokens, random);
  }

  KvPlainArgs args() {
    layers_.clear();
    for (size_t l = 0; l < kLayers; ++l) layers_.push_back(layer(l));
    width = static_cast<size_t>(shape.n_kv_heads) * static_cast<size_t>(shape.head_dim);
    key.assign(kRows * kLayers * width, NAN);
    value.assign(key.size(), NAN);
    return {.shape = shape,
            .layers = layers_,
            .entries = entries.data(),
            .positions = positions.data(),
            .n_rows = kRows,
            .key = key.data(),
            .value = value.data()};
  }

  const TestSequence& stored(size_t layer) const { return sequences_[layer]; }
  const std::vector<float>& table(size_t layer) const { return layer == 1 ? slow_ : quick_; }
  double factor(size_t layer) const { return layer == 1 ? 1.25 : 1; }

  KvShape shape;
  const std::vector<int32_t> entries = {0, 31, 32, 69, 3};
  const std::vector<int32_t> positions = {0, 40, -3, 5000, 131000};
  size_t width = 0;
  std::vector<float> key, value;  // [kRows][kLayers][width]

 private:
  KvPlainLayer layer(size_t l) {
    return {sequences_[l].view(), table(l).data(), static_cast<float>(factor(l))};
  }

  std::vector<float> quick_ = frequencies_of(1e4, shape.head_dim);
  std::vector<float> slow_ = frequencies_of(1e6, shape.head_dim);
  std::vector<TestSequence> sequences_;
  std::vector<KvPlainLayer> layers_;
};

// The rows against their pairs as complex numbers, turned back by the angle.
void check_plain(const Layers& layers, RopePairing pairing) {
  const auto dim = static_cast<size_t>(layers.shape.head_dim);
  const bool halves = pairing == RopePairing::kHalves;
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t l = 0; l < kLayers; ++l) {
      const size_t stored = static_cast<size_t>(layers.entries[row]) * layers.width;
      const size_t out = (row * kLayers + l) * layers.width;
      for (size_t i = 0; i < layers.width; ++i)
        ASSERT_EQ(layers.value[out + i], layers.stored(l).value[stored + i]);
      for (size_t i = 0; i < layers.width / 2; ++i) {
        const size_t head = i / (dim / 2) * dim, pair = i % (dim / 2);
        const size_t a = head + (halves ? pair : 2 * pair);
        const size_t b = head + (halves ? pair + dim / 2 : 2 * pair + 1);
        const auto& key = layers.stored(l).key;
        const double angle = layers.positions[row] * static_cast<double>(layers.table(l)[pair]);
        const auto plain = std::complex<double>(key[stored + a], key[stored + b]) /
                           std::polar(layers.factor(l), angle);
        ASSERT_NEAR(layers.key[out + a], plain.real(), 1e-6) << "row " << row << " layer " << l;
        ASSERT_NEAR(layers.key[out + b], plain.imag(), 1e-6) << "row " << row << " layer " << l;
      }
    }
  }
}

TEST(KvPlainTest, TurnsBackAsComplexNumbers) {
  std::mt19937 random(1);
  for_each_target([&] {
    // 256 dimensions take their angles in several parts, 12 are no whole vector.
    for (const int32_t dim : {12, 16, 256}) {
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
        for (const RopePairing pairing : {RopePairing::kHalves, RopePairing::kNeighbours}) {
          Layers layers({1, 2, dim, dtype}, random);
          KvPlainArgs args = layers.args();
          args.pairing = pairing;
          ASSERT_TRUE(kv_plain(*cpu_stream(2), args));
          check_plain(layers, pairing);
        }
      }
    }
  });
}

TEST(KvPlainTest, BitsDependOnTheRowAlone) {
  std::mt19937 random(2);
  Layers layers({1, 2, 64, DType::kF16}, random);
  const KvPlainArgs args = layers.args();
  ASSERT_TRUE(kv_plain(*cpu_stream(1), args));
  const std::vector<float> together = layers.key;
  KvPlainArgs one = layers.args();
  auto stream = cpu_stream(3);
  for (int64_t row = 0; row < kRows; ++row) {
    const int64_t at = row * static_cast<int64_t>(kLayers * layers.width);
    one.entries = layers.entries.data() + row;
    one.positions = layers.positions.data() + row;
    one.n_rows = 1;
    one.key = layers.key.data() + at;
    one.value = layers.value.data() + at;
    ASSERT_TRUE(kv_plain(*stream, one));
  }
  EXPECT_EQ(layers.key, together);
}

TEST(KvPlainTest, RefusesArgumentsOutsideTheContract) {
  std::mt19937 random(3);
  Layers layers({1, 2, 8, DType::kF16}, random);
  auto stream = cpu_stream(1);
  const auto refused = [&](auto change) {
    KvPlainArgs args = layers.args();
    change(args);
    return !kv_plain(*stream, args).has_value();
  };
  EXPECT_FALSE(refused([](KvPlainArgs&) {}));
  EXPECT_TRUE(refused([](KvPlainArgs& a) { a.shape.head_dim = 7; }));
  EXPECT_TRUE(refused([](KvPlainArgs& a) { a.shape.dtype = DType::kQ8_0; }));
  EXPECT_TRUE(refused([](KvPlainArgs& a) { a.n_rows = -1; }));
  EXPECT_TRUE(refused([](KvPlainArgs& a) { a.entries = nullptr; }));
  EXPECT_TRUE(refused([](KvPlainArgs& a) { a.positions = nullptr; }));
  EXPECT_TRUE(refused([](KvPlainArgs& a) { a.key = nullptr; }));
  EXPECT_TRUE(refused([](KvPlainArgs& a) { a.value = nullptr; }));
  const auto refused_layer = [&](auto change) {
    const KvPlainArgs args = layers.args();
    std::vector<KvPlainLayer> changed(args.layers.begin(), args.layers.end());
    change(changed.back());
    KvPlainArgs with = args;
    with.layers = changed;
    return !kv_plain(*stream, with).has_value();
  };
  EXPECT_TRUE(refused_layer([](KvPlainLayer& l) { l.kv.base = nullptr; }));
  EXPECT_TRUE(refused_layer([](KvPlainLayer& l) { l.frequencies = nullptr; }));
  EXPECT_TRUE(refused_layer([](KvPlainLayer& l) { l.attention_factor = 0; }));
  EXPECT_TRUE(refused_layer([](KvPlainLayer& l) { l.attention_factor = NAN; }));
}

}  // namespace
}  // namespace suture
