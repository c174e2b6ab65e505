#include "fusion/fit_moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "fusion/projector_build.h"
#include "fusion/ridge.h"
#include "fusion/test_projector.h"
#include "kernels/matmul.h"

namespace suture {
namespace {

// As small_source() and small_target() have them.
constexpr FitShape kShape{
    .source_layers = 3, .source_width = 16, .target_layers = 2, .target_width = 12, .widest = 3};
constexpr size_t kIn = 48;
constexpr size_t kOut = 24;

// Rows far from zero; those of the target follow from the source's, up to noise.
struct Text {
  std::vector<float> x;  // [n][kIn]
  std::vector<float> y;  // [n][kOut]
  int64_t n = 0;
};

Text make_text(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Text text{.x = {}, .y = {}, .n = n};
  for (int64_t row = 0; row < n; ++row) {
    for (size_t i = 0; i < kIn; ++i) text.x.push_back(100 + static_cast<float>(i) + normal(random));
    for (size_t o = 0; o < kOut; ++o) {
      const float* x = text.x.data() + static_cast<size_t>(row) * kIn;
      text.y.push_back(-50 + x[o] + 0.5F * x[o + 24] + 0.1F * normal(random));
    }
  }
  return text;
}

void add(const Text& text, std::optional<int32_t> kind, FitMoments& moments) {
  Text copy = text;
  moments.add({.source = copy.x, .target = copy.y, .n_rows = copy.n}, kind, 2);
}

// Sum over rows of (x_a - origin_a) (x_b - origin_b).
double product(const Text& text, std::span<const double> origin, size_t a, size_t b) {
  double sum = 0;
  for (size_t row = 0; row < static_cast<size_t>(text.n); ++row)
    sum += (static_cast<double>(text.x[row * kIn + a]) - origin[a]) *
           (static_cast<double>(text.x[row * kIn + b]) - origin[b]);
  return sum;
}

TEST(FitMoments, AreRelativeToTheMeanRowOfTheFirstText) {
  const Text first = make_text(20, 1);
  const Text second = make_text(30, 2);
  FitMoments moments(kShape, 2);
  add(first, std::nullopt, moments);
  add(second, std::nullopt, moments);
  double mean = 0;
  for (size_t row = 0; row < 20; ++row) mean += static_cast<double>(first.x[row * kIn + 7]) / 20;
  EXPECT_NEAR(moments.source_origin()[7], mean, 1e-4);
  const auto products = moments.fit().products(0, {0, 3});
  const double expected = product(first, moments.source_origin(), 2, 21) +
                          product(second, moments.source_origin(), 2, 21);
  EXPECT_NEAR(products.data[2 * products.stride + 21], expected, 1e-3);
  EXPECT_EQ(moments.fit().n_rows(), 50);
}

TEST(FitMoments, KeepHeldOutTextsApartByKind) {
  const Text first = make_text(5, 1);
  const Text second = make_text(7, 2);
  FitMoments moments(kShape, 3);
  add(first, 2, moments);
  add(second, 0, moments);
  EXPECT_EQ(moments.row_counts(), (std::vector<int64_t>{0, 7, 0, 5}));
  const Gram all = moments.all_held_out();
  EXPECT_EQ(all.n_rows(), 12);
  const auto products = all.products(1, {1, 1});
  const double expected = product(first, moments.source_origin(), 17, 18) +
                          product(second, moments.source_origin(), 17, 18);
  EXPECT_NEAR(products.data[1 * products.stride + 2], expected, 1e-3);
}

TEST(FitMoments, ATextWithoutRowsChangesNothing) {
  FitMoments moments(kShape, 1);
  moments.add({.source = {}, .target = {}, .n_rows = 0}, std::nullopt, 1);
  EXPECT_EQ(moments.row_counts(), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(moments.source_origin()[0], 0);
}

TEST(FitMoments, TakeUpWhatTheyHaveStored) {
  FitMoments moments(kShape, 1);
  add(make_text(9, 3), std::nullopt, moments);
  add(make_text(4, 4), 0, moments);
  FitMoments copy(kShape, 1);
  const auto from = moments.storage();
  const auto to = copy.storage();
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) std::ranges::copy(from[i], to[i].begin());
  copy.set_row_counts(moments.row_counts());
  const Text more = make_text(6, 5);
  add(more, 0, moments);
  add(more, 0, copy);
  EXPECT_EQ(copy.row_counts(), moments.row_counts());
  for (size_t i = 0; i < from.size(); ++i) EXPECT_TRUE(std::ranges::equal(from[i], to[i])) << i;
}

// Maps of K and V fitted to the same rows, as a projector.
struct Built {
  Projector projector;
  std::vector<HeldOutKind> kinds;
};

Built build(const std::vector<Text>& to_fit, const std::vector<Text>& held_out,
            int32_t own_layers = 0) {
  FitShape shape = kShape;
  shape.own_layers = own_layers;
  FitMoments moments(shape, 2);
  for (const Text& text : to_fit) add(text, std::nullopt, moments);
  for (size_t kind = 0; kind < held_out.size(); ++kind)
    add(held_out[kind], static_cast<int32_t>(kind), moments);
  const auto fits = fit_ridge(moments.fit(), moments.all_held_out(),
                              {.windows = {3}, .ridges = {1e-8}, .threads = 1, .on_step = {}});
  EXPECT_TRUE(fits) << fits.error().message();
  Built built;
  built.projector = TestProjector(DType::kF16, {}).value;
  const FittedMaps maps{*fits, moments};
  EXPECT_TRUE(set_maps(maps, maps, DType::kF16, built.projector));
  built.kinds = held_out_kinds(maps, maps, {"odd", "even"}, {3, 4});
  return built;
}

// gamma (W (x - mean)) + beta for one row, from the projector's own numbers.
double mapped(const LinearMap& map, const Text& text, size_t row, size_t channel) {
  const auto in = static_cast<size_t>(map.in());  // behind kIn come columns of the target's own
  std::vector<float> weights(in);
  dequantise(map.dtype, reinterpret_cast<const std::byte*>(map.weights.data() + channel * in),
             map.in(), weights.data());
  double sum = 0;
  for (size_t i = 0; i < in; ++i) {
    const float x = i < kIn ? text.x[row * kIn + i] : text.y[row * kOut + i - kIn];
    sum += static_cast<double>(weights[i]) *
           (static_cast<double>(x) - static_cast<double>(map.mean[i]));
  }
  return static_cast<double>(map.gamma[channel]) * sum + static_cast<double>(map.beta[channel]);
}

TEST(ProjectorBuild, MapsRowsAsTheModelsHaveThem) {
  const Text text = make_text(400, 1);
  const Text other = make_text(100, 2);
  const Built built = build({text}, {other});
  ASSERT_TRUE(validate(built.projector)) << validate(built.projector).error().message();
  for (size_t layer = 0; layer < 2; ++layer)
    for (size_t channel = 0; channel < 12; ++channel)
      for (size_t row = 0; row < 100; row += 13)
        EXPECT_NEAR(mapped(built.projector.layers[layer].key, other, row, channel),
                    static_cast<double>(other.y[row * kOut + layer * 12 + channel]), 0.6);
}

TEST(ProjectorBuild, MapsTheTargetsFirstLayerToItself) {
  const Text other = make_text(100, 2);
  const Built built = build({make_text(400, 1)}, {other}, /*own_layers=*/1);
  EXPECT_TRUE(built.projector.own_first_layer);
  ASSERT_TRUE(validate(built.projector)) << validate(built.projector).error().message();
  const LinearMap& first = built.projector.layers[0].key;
  EXPECT_GT(first.r2, 0.99999);
  // Rounding of the numbers in float16 and of rows in float32 is left.
  for (size_t channel = 0; channel < 12; ++channel)
    for (size_t row = 0; row < 100; row += 13)
      EXPECT_NEAR(mapped(first, other, row, channel),
                  static_cast<double>(other.y[row * kOut + channel]), 0.01);
}

TEST(ProjectorBuild, ErrorsOfAKindAreThoseOfItsRows) {
  const Text odd = make_text(60, 2);
  const Text even = make_text(80, 3);
  const Built built = build({make_text(300, 1)}, {odd, even});
  ASSERT_EQ(built.kinds.size(), 2U);
  EXPECT_EQ(built.kinds[1].kind, "even");
  EXPECT_EQ(built.kinds[1].texts, 4);
  EXPECT_EQ(built.kinds[1].tokens, 80);
  double mse = 0;  // mean over both layers, of all channels
  double r2 = 0;
  for (size_t layer = 0; layer < 2; ++layer) {
    double error = 0;
    double variance = 0;
    for (size_t channel = 0; channel < 12; ++channel) {
      const auto y = [&](size_t row) {
        return static_cast<double>(even.y[row * kOut + layer * 12 + channel]);
      };
      double mean = 0;
      for (size_t row = 0; row < 80; ++row) mean += y(row) / 80;
      for (size_t row = 0; row < 80; ++row) {
        const double p = mapped(built.projector.layers[layer].value, even, row, channel);
        error += (p - y(row)) * (p - y(row));
        variance += (y(row) - mean) * (y(row) - mean);
      }
    }
    mse += error / (80 * 12) / 2;
    r2 += (1 - error / variance) / 2;
  }
  EXPECT_NEAR(built.kinds[1].value_mse, mse, 0.02 * mse);
  EXPECT_NEAR(built.kinds[1].value_r2, r2, 1e-3);
}

TEST(ProjectorBuild, LeavesOutKindsWithoutRows) {
  EXPECT_EQ(build({make_text(300, 1)}, {make_text(60, 2)}).kinds.size(), 1U);
}

}  // namespace
}  // namespace suture
