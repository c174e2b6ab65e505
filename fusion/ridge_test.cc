#include "fusion/ridge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "fusion/held_out.h"

namespace suture {
namespace {

using Matrix = std::vector<std::vector<double>>;  // [rows][columns]

constexpr FitShape kShape{
    .source_layers = 4, .source_width = 3, .target_layers = 3, .target_width = 2, .widest = 4};

FitShape with_own_layer() {
  FitShape shape = kShape;
  shape.own_layers = 1;
  return shape;
}

// Texts of a source whose columns have a constant part, and of a target that is a linear map of it
// plus noise.
struct Texts {
  std::vector<float> x;  // [n][12]
  std::vector<float> y;  // [n][6]
  int64_t n = 0;
};

Matrix true_map() {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  Matrix map(6, std::vector<double>(12));
  for (auto& row : map)
    for (double& weight : row) weight = normal(random);
  return map;
}

Texts make_texts(int64_t n, uint32_t seed, double noise) {
  static const Matrix map = true_map();
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Texts texts{.n = n};
  for (int64_t row = 0; row < n; ++row) {
    std::vector<double> x;
    for (int i = 0; i < 12; ++i) {
      x.push_back(static_cast<double>(static_cast<float>(0.5 * i + normal(random))));
      texts.x.push_back(static_cast<float>(x.back()));
    }
    for (size_t o = 0; o < 6; ++o) {
      double y = 2 + noise * normal(random);
      for (size_t i = 0; i < 12; ++i) y += map[o][i] * x[i];
      texts.y.push_back(static_cast<float>(y));
    }
  }
  return texts;
}

Gram gram_of(const Texts& texts, const FitShape& shape = kShape) {
  Gram gram(shape);
  gram.add({texts.x.data(), texts.y.data(), texts.n}, 1);
  return gram;
}

// Gauss with pivots: another way to the solution than the product's.
std::vector<double> solve_by_elimination(Matrix a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

std::vector<double> column_means(const std::vector<float>& rows, size_t width) {
  std::vector<double> means(width);
  for (size_t i = 0; i < rows.size(); ++i) means[i % width] += static_cast<double>(rows[i]);
  const size_t n = rows.size() / width;
  for (double& mean : means) mean /= static_cast<double>(n);
  return means;
}

// All of x, then `own` columns of y, side by side.
Matrix inputs_of(const Texts& texts, size_t own) {
  Matrix rows;
  for (size_t row = 0; row < static_cast<size_t>(texts.n); ++row) {
    const auto x = texts.x.begin() + static_cast<std::ptrdiff_t>(row * 12);
    const auto y = texts.y.begin() + static_cast<std::ptrdiff_t>(row * 6);
    rows.emplace_back(x, x + 12);
    rows.back().insert(rows.back().end(), y, y + static_cast<std::ptrdiff_t>(own));
  }
  return rows;
}

// Ridge regression of one column of y on all of x, and `own` columns of y, from the rows
// themselves.
std::vector<double> reference_weights(const Texts& texts, size_t column, double ridge,
                                      size_t own = 0) {
  const size_t width = 12 + own;
  const Matrix inputs = inputs_of(texts, own);
  std::vector<double> mx(width);
  for (const auto& row : inputs)
    for (size_t i = 0; i < width; ++i) mx[i] += row[i] / static_cast<double>(texts.n);
  const auto my = column_means(texts.y, 6);
  Matrix a(width, std::vector<double>(width));
  std::vector<double> b(width);
  for (size_t row = 0; row < inputs.size(); ++row)
    for (size_t i = 0; i < width; ++i) {
      const double xi = inputs[row][i] - mx[i];
      for (size_t j = 0; j < width; ++j) a[i][j] += xi * (inputs[row][j] - mx[j]);
      b[i] += xi * (static_cast<double>(texts.y[row * 6 + column]) - my[column]);
    }
  for (size_t i = 0; i < width; ++i) a[i][i] *= 1 + ridge;
  return solve_by_elimination(a, b);
}

// What the finished map makes of the rows: [n] of one channel of a target layer.
std::vector<double> mapped(const RidgeFit& fit, size_t channel, const Texts& texts) {
  const size_t n_in = fit.mean.size();
  const size_t first = static_cast<size_t>(fit.window.first) * 3;
  std::vector<double> out;
  for (size_t row = 0; row < static_cast<size_t>(texts.n); ++row) {
    double p = 0;
    for (size_t i = 0; i < n_in; ++i)
      p += static_cast<double>(fit.weights[channel * n_in + i]) *
           (static_cast<double>(texts.x[row * 12 + first + i]) - fit.mean[i]);
    out.push_back(fit.gamma[channel] * p + fit.beta[channel]);
  }
  return out;
}

TEST(Ridge, IsTheSolutionThatTheRowsThemselvesGive) {
  const Texts fit = make_texts(200, 1, 1.0);
  const Texts held_out = make_texts(80, 2, 1.0);
  const auto fits =
      fit_ridge(gram_of(fit), gram_of(held_out), {.windows = {4}, .ridges = {1e-2}, .threads = 2});
  ASSERT_TRUE(fits) << fits.error().message();
  for (size_t layer = 0; layer < 3; ++layer)
    for (size_t channel = 0; channel < 2; ++channel) {
      const auto expected = reference_weights(fit, layer * 2 + channel, 1e-2);
      for (size_t i = 0; i < 12; ++i)
        EXPECT_NEAR((*fits)[layer].weights[channel * 12 + i], expected[i], 1e-4);
    }
}

TEST(Ridge, TheTargetsFirstLayerIsAnInputBehindTheWindows) {
  const Texts fit = make_texts(200, 1, 1.0);
  const Texts held_out = make_texts(80, 2, 1.0);
  const FitShape shape = with_own_layer();
  const auto fits = fit_ridge(gram_of(fit, shape), gram_of(held_out, shape),
                              {.windows = {4}, .ridges = {1e-2}, .threads = 2});
  ASSERT_TRUE(fits) << fits.error().message();
  for (size_t layer = 0; layer < 3; ++layer)
    for (size_t channel = 0; channel < 2; ++channel) {
      const auto expected = reference_weights(fit, layer * 2 + channel, 1e-2, 2);
      for (size_t i = 0; i < 14; ++i)
        EXPECT_NEAR((*fits)[layer].weights[channel * 14 + i], expected[i], 1e-4);
    }
  // By how much the map misses the held-out rows, from these themselves.
  const RidgeFit& last = fits->back();
  const Matrix inputs = inputs_of(held_out, 2);
  double error = 0;
  for (size_t row = 0; row < inputs.size(); ++row)
    for (size_t channel = 0; channel < 2; ++channel) {
      double p = 0;
      for (size_t i = 0; i < 14; ++i)
        p += static_cast<double>(last.weights[channel * 14 + i]) * (inputs[row][i] - last.mean[i]);
      const auto y = static_cast<double>(held_out.y[row * 6 + 4 + channel]);
      error += std::pow(y - last.gamma[channel] * p - last.beta[channel], 2);
    }
  EXPECT_NEAR(last.mse, error / 160, 1e-4 * error / 160);
}

// That layer itself is given; no noise keeps it from being found.
TEST(Ridge, TheTargetsFirstLayerIsFoundInItself) {
  const FitShape shape = with_own_layer();
  const auto fits =
      fit_ridge(gram_of(make_texts(200, 1, 3.0), shape), gram_of(make_texts(80, 2, 3.0), shape),
                {.windows = {1, 4}, .ridges = {1e-1, 1e-6}, .threads = 2});
  ASSERT_TRUE(fits);
  EXPECT_GT((*fits)[0].r2, 0.99999);
  EXPECT_GE((*fits)[0].mse, 0);
  EXPECT_LE((*fits)[0].r2, 1);
  EXPECT_LT((*fits)[1].r2, 0.9);
}

// Nor does it matter in what units a column comes.
TEST(Ridge, TheScaleOfAColumnChangesNothing) {
  Texts fit = make_texts(200, 1, 1.0);
  Texts held_out = make_texts(80, 2, 1.0);
  const RidgeOptions options{.windows = {4}, .ridges = {1e-1}, .threads = 1};
  const auto before = fit_ridge(gram_of(fit), gram_of(held_out), options);
  for (Texts* texts : {&fit, &held_out})
    for (size_t i = 5; i < texts->x.size(); i += 12) texts->x[i] *= 0x1p-8F;
  const auto after = fit_ridge(gram_of(fit), gram_of(held_out), options);
  ASSERT_TRUE(before && after);
  for (size_t layer = 0; layer < 3; ++layer)
    EXPECT_NEAR((*after)[layer].mse, (*before)[layer].mse, 1e-4 * (*before)[layer].mse);
}

// Rows come relative to a mean, of which such a column never differs.
TEST(Ridge, AColumnThatNeverVariesHasNoPart) {
  Texts fit = make_texts(100, 1, 1.0);
  const Texts held_out = make_texts(50, 2, 1.0);
  for (size_t i = 3; i < fit.x.size(); i += 12) fit.x[i] = 0;
  const auto fits = fit_ridge(gram_of(fit), gram_of(held_out), {.windows = {4}, .ridges = {1e-3}});
  ASSERT_TRUE(fits) << fits.error().message();
  for (size_t channel = 0; channel < 2; ++channel)
    EXPECT_EQ(fits->front().weights[channel * 12 + 3], 0);
}

TEST(Ridge, FindsAMapBelowNoise) {
  const auto fits = fit_ridge(gram_of(make_texts(4000, 1, 0.1)), gram_of(make_texts(500, 2, 0.1)),
                              {.windows = {2, 4}, .ridges = {1e-1, 1e-5}, .threads = 2});
  ASSERT_TRUE(fits);
  const Matrix map = true_map();
  for (size_t layer = 0; layer < 3; ++layer) {
    const RidgeFit& fit = (*fits)[layer];
    EXPECT_EQ(fit.window, (LayerWindow{0, 4}));
    EXPECT_EQ(fit.ridge, 1e-5);
    EXPECT_NEAR(fit.mse, 0.01, 0.002);
    EXPECT_GT(fit.r2, 0.99);
    for (size_t channel = 0; channel < 2; ++channel) {
      EXPECT_NEAR(fit.gamma[channel], 1, 0.01);
      for (size_t i = 0; i < 12; ++i)
        EXPECT_NEAR(fit.weights[channel * 12 + i], map[layer * 2 + channel][i], 0.02);
    }
  }
}

TEST(Ridge, ErrorFromMomentsIsTheErrorOnTheRows) {
  const Texts held_out = make_texts(90, 5, 2.0);
  const auto fits = fit_ridge(gram_of(make_texts(60, 4, 2.0)), gram_of(held_out),
                              {.windows = {2}, .ridges = {1e-3}, .threads = 1});
  ASSERT_TRUE(fits);
  const auto means = column_means(held_out.y, 6);
  for (size_t layer = 0; layer < 3; ++layer) {
    const RidgeFit& fit = (*fits)[layer];
    EXPECT_EQ(fit.window.count, 2);
    double error = 0;
    double variance = 0;
    for (size_t channel = 0; channel < 2; ++channel) {
      const auto given = mapped(fit, channel, held_out);
      for (size_t row = 0; row < given.size(); ++row) {
        const auto y = static_cast<double>(held_out.y[row * 6 + layer * 2 + channel]);
        error += (y - given[row]) * (y - given[row]);
        variance += std::pow(y - means[layer * 2 + channel], 2);
      }
    }
    EXPECT_NEAR(fit.mse, error / 180, 1e-4 * error / 180);
    EXPECT_NEAR(fit.r2, 1 - error / variance, 1e-4);
  }
}

TEST(Ridge, GammaAndBetaAreTheLineThatSuitsTheHeldOutRowsBest) {
  const Texts held_out = make_texts(90, 5, 2.0);
  auto fits = fit_ridge(gram_of(make_texts(60, 4, 2.0)), gram_of(held_out),
                        {.windows = {4}, .ridges = {1e-1}, .threads = 1});
  ASSERT_TRUE(fits);
  RidgeFit& fit = fits->front();
  const auto error = [&] {
    double sum = 0;
    const auto given = mapped(fit, 1, held_out);
    for (size_t row = 0; row < given.size(); ++row)
      sum += std::pow(static_cast<double>(held_out.y[row * 6 + 1]) - given[row], 2);
    return sum;
  };
  const double least = error();
  for (double* parameter : {&fit.gamma[1], &fit.beta[1]})
    for (const double step : {-0.01, 0.01}) {
      *parameter += step;
      EXPECT_GT(error(), least);
      *parameter -= step;
    }
}

TEST(Ridge, AsManyThreadsAsYouLikeGiveTheSameFits) {
  const Gram fit = gram_of(make_texts(100, 1, 1.0));
  const Gram held_out = gram_of(make_texts(50, 2, 1.0));
  RidgeOptions options{.windows = {1, 2, 4}, .ridges = {1e-2, 1e-4}, .threads = 1};
  const auto one = fit_ridge(fit, held_out, options);
  options.threads = 4;
  const auto four = fit_ridge(fit, held_out, options);
  ASSERT_TRUE(one && four);
  for (size_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ((*one)[layer].weights, (*four)[layer].weights);
    EXPECT_EQ((*one)[layer].mse, (*four)[layer].mse);
  }
}

TEST(Ridge, NoRowsAreRefused) {
  const Gram some = gram_of(make_texts(10, 1, 1.0));
  const RidgeOptions options{.windows = {4}, .ridges = {1e-2}};
  EXPECT_EQ(fit_ridge(Gram(kShape), some, options).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(fit_ridge(some, Gram(kShape), options).error().code, ErrorCode::kInvalidArgument);
}

TEST(Ridge, RowsThatAreNoNumbersAreRefused) {
  Texts texts = make_texts(50, 1, 1.0);
  const Gram held_out = gram_of(texts);
  texts.x[17] = NAN;
  const auto fits = fit_ridge(gram_of(texts), held_out, {.windows = {4}, .ridges = {1e-2}});
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().code, ErrorCode::kInvalidArgument);
}

TEST(Ridge, TellsEachChoiceThatWasTried) {
  const Gram fit = gram_of(make_texts(100, 1, 1.0));
  const Gram held_out = gram_of(make_texts(50, 2, 1.0));
  std::vector<RidgeTrial> trials;
  RidgeOptions options{.windows = {1, 4}, .ridges = {1e-2, 1e-4}, .threads = 2};
  options.on_trial = [&trials](const RidgeTrial& trial) { trials.push_back(trial); };
  const auto best = fit_ridge(fit, held_out, options);
  ASSERT_TRUE(best);
  EXPECT_EQ(trials.size(), 2 * 2 * 3);
  for (const RidgeTrial& trial : trials) {
    options = {.windows = {trial.window}, .ridges = {trial.ridge}, .threads = 1};
    const auto alone = fit_ridge(fit, held_out, options);
    ASSERT_TRUE(alone);
    EXPECT_EQ(trial.r2, (*alone)[static_cast<size_t>(trial.target_layer)].r2);
  }
}

TEST(Ridge, EndsWhenItIsTold) {
  const Gram gram = gram_of(make_texts(50, 1, 1.0));
  std::set<int64_t> seen;
  const auto fits = fit_ridge(gram, gram,
                              {.windows = {2, 4},
                               .ridges = {1e-2, 1e-3},
                               .threads = 1,
                               .on_step = [&](int64_t done, int64_t total) {
                                 EXPECT_EQ(total, 12);
                                 seen.insert(done);
                                 return done < 3;
                               }});
  ASSERT_FALSE(fits);
  EXPECT_EQ(fits.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(seen, (std::set<int64_t>{1, 2, 3}));
}

}  // namespace
}  // namespace suture
