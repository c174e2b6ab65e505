#include "fusion/gram.h"

#include <gtest/gtest.h>

#include <random>

namespace suture {
namespace {

std::vector<float> random_rows(int64_t n, uint32_t seed, float centre = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(centre, 1);
  std::vector<float> rows(static_cast<size_t>(n));
  for (float& value : rows) value = normal(random);
  return rows;
}

constexpr FitShape kShape{
    .source_layers = 5, .source_width = 3, .target_layers = 4, .target_width = 2, .widest = 3};

// Sum of products of column a of one matrix and column b of another, [n][width] each.
double reference(const std::vector<float>& left, int64_t left_width, int64_t a,
                 const std::vector<float>& right, int64_t right_width, int64_t b) {
  double sum = 0;
  const int64_t n = std::ssize(left) / left_width;
  for (int64_t row = 0; row < n; ++row)
    sum += static_cast<double>(left[static_cast<size_t>(row * left_width + a)]) *
           static_cast<double>(right[static_cast<size_t>(row * right_width + b)]);
  return sum;
}

TEST(Window, LiesAroundTheRelativeDepthAndWithinTheSource) {
  const FitShape shape{.source_layers = 24, .target_layers = 28, .widest = 24};
  EXPECT_EQ(window_around(shape, 0, 8), (LayerWindow{0, 8}));
  EXPECT_EQ(window_around(shape, 27, 8), (LayerWindow{16, 8}));
  EXPECT_EQ(window_around(shape, 13, 4), (LayerWindow{10, 4}));  // depth 11.07
  for (int32_t layer = 0; layer < 28; ++layer)
    EXPECT_EQ(window_around(shape, layer, 24), (LayerWindow{0, 24}));
}

TEST(Window, NarrowOnesLieWithinWideOnes) {
  for (const int32_t source : {1, 5, 24, 31})
    for (const int32_t target : {1, 7, 24, 28}) {
      const FitShape shape{.source_layers = source, .target_layers = target, .widest = source};
      for (int32_t layer = 0; layer < target; ++layer)
        for (int32_t count = 2; count <= source; ++count) {
          const LayerWindow wide = window_around(shape, layer, count);
          const LayerWindow narrow = window_around(shape, layer, count - 1);
          EXPECT_LE(wide.first, narrow.first);
          EXPECT_GE(wide.end(), narrow.end());
        }
    }
}

TEST(Gram, HoldsSumsOfProductsOfAllColumnsThatShareAWindow) {
  const auto x = random_rows(7 * kShape.source_features(), 1);
  const auto y = random_rows(7 * kShape.target_features(), 2);
  Gram gram(kShape);
  gram.add({x.data(), y.data(), 7}, 2);
  ASSERT_EQ(gram.n_rows(), 7);
  for (int32_t t = 0; t < kShape.target_layers; ++t) {
    const LayerWindow window = window_around(kShape, t, kShape.widest);
    for (int32_t a = window.first; a < window.end(); ++a) {
      const auto products = gram.products(a, {a, window.end() - a});
      for (int64_t i = 0; i < products.rows; ++i)
        for (int64_t j = 0; j < products.columns; ++j)
          EXPECT_NEAR(products.data[i * products.stride + j],
                      reference(x, 15, a * 3 + i, x, 15, a * 3 + j), 1e-5);
      const auto cross = gram.cross_products(a, t);
      for (int64_t i = 0; i < cross.rows; ++i)
        for (int64_t j = 0; j < cross.columns; ++j)
          EXPECT_NEAR(cross.data[i * cross.stride + j],
                      reference(x, 15, a * 3 + i, y, 8, t * 2 + j), 1e-5);
    }
  }
  double sum = 0;
  for (size_t row = 0; row < 7; ++row) sum += static_cast<double>(x[row * 15 + 4]);
  EXPECT_NEAR(gram.source_sums()[4], sum, 1e-9);
  EXPECT_NEAR(gram.target_squares()[3], reference(y, 8, 3, y, 8, 3), 1e-9);
}

TEST(Gram, HoldsProductsWithTheTargetsOwnFirstLayer) {
  FitShape shape = kShape;
  shape.own_layers = 1;
  const auto x = random_rows(7 * shape.source_features(), 1);
  const auto y = random_rows(7 * shape.target_features(), 2);
  Gram gram(shape);
  gram.add({x.data(), y.data(), 7}, 2);
  for (int32_t layer = 0; layer < shape.source_layers; ++layer) {
    const auto products = gram.own_products(layer);
    ASSERT_EQ(products.rows, 3);
    ASSERT_EQ(products.columns, 2);
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 2; ++j)
        EXPECT_NEAR(products.data[i * products.stride + j],
                    reference(x, 15, layer * 3 + i, y, 8, j), 1e-5);
  }
  for (int32_t layer = 0; layer < shape.target_layers; ++layer) {
    const auto cross = gram.own_cross_products(layer);
    ASSERT_EQ(cross.rows, 2);
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 2; ++j)
        EXPECT_NEAR(cross.data[i * cross.stride + j], reference(y, 8, i, y, 8, layer * 2 + j),
                    1e-5);
  }
  EXPECT_EQ(Gram(kShape).own_products(2).columns, 0);
  EXPECT_EQ(Gram(kShape).own_cross_products(2).rows, 0);
}

TEST(Gram, PiecesAddUpToTheWhole) {
  const auto x = random_rows(64 * kShape.source_features(), 3);
  const auto y = random_rows(64 * kShape.target_features(), 4);
  Gram whole(kShape);
  whole.add({x.data(), y.data(), 64}, 1);
  Gram pieces(kShape);
  pieces.add({x.data(), y.data(), 10}, 2);
  pieces.add({x.data() + 10 * 15, y.data() + 10 * 8, 54}, 3);
  pieces.add({nullptr, nullptr, 0}, 1);
  EXPECT_EQ(pieces.n_rows(), whole.n_rows());
  const auto a = whole.storage();
  const auto b = pieces.storage();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[i].size(); ++j) EXPECT_NEAR(a[i][j], b[i][j], 1e-4);
}

TEST(Gram, TakesTheMemoryThatItStates) {
  for (const int32_t widest : {1, 3, 5})
    for (const int32_t own_layers : {0, 1}) {
      FitShape shape = kShape;
      shape.widest = widest;
      shape.own_layers = own_layers;
      Gram gram(shape);
      uint64_t bytes = 0;
      for (const auto part : gram.storage()) bytes += part.size_bytes();
      EXPECT_EQ(Gram::bytes_for(shape), bytes);
    }
}

}  // namespace
}  // namespace suture
