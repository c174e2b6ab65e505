#include "fusion/held_out.h"

#include <algorithm>

namespace suture {
namespace {

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

std::span<const double> of_layers(std::span<const double> sums, int32_t first, int32_t count,
                                  int32_t width) {
  return sums.subspan(static_cast<size_t>(first) * static_cast<size_t>(width),
                      static_cast<size_t>(count) * static_cast<size_t>(width));
}

std::vector<double> divided(std::span<const double> sums, int64_t n) {
  std::vector<double> means(sums.begin(), sums.end());
  for (double& mean : means) mean /= static_cast<double>(n);
  return means;
}

// [inputs] of what a map takes.
std::vector<double> input_sums(const Gram& gram, LayerWindow window) {
  const FitShape& shape = gram.shape();
  const auto layers = of_layers(gram.source_sums(), window.first, window.count, shape.source_width);
  const auto own = of_layers(gram.target_sums(), 0, shape.own_layers, shape.target_width);
  std::vector<double> sums(layers.begin(), layers.end());
  sums.insert(sums.end(), own.begin(), own.end());
  return sums;
}

// forms[c] += w_c^T (product_c), of rows of `weights` and of `products`.
void add_dots(const MatrixView<const double>& weights, const MatrixView<double>& products,
              std::vector<double>& forms) {
  for (int64_t channel = 0; channel < weights.rows; ++channel)
    forms[static_cast<size_t>(channel)] +=
        dot(weights.data + channel * weights.stride, products.data + channel * products.stride,
            weights.columns);
}

// [target_width] w^T (X^T X) w for each row w of the weights. The blocks above the diagonal count
// twice, for those below.
std::vector<double> quadratic_forms(const Gram& gram, LayerWindow window,
                                    const MatrixView<const double>& weights) {
  const int64_t width = gram.shape().source_width;
  const int64_t own_width = gram.shape().own_features();
  std::vector<double> forms(static_cast<size_t>(weights.rows));
  std::vector<double> product(static_cast<size_t>(weights.rows * std::max(width, own_width)));
  const MatrixView<const double> own{weights.data + window.count * width, weights.rows, own_width,
                                     weights.stride};
  for (int32_t layer = window.first; layer < window.end(); ++layer) {
    const MatrixView<const double> part{weights.data + (layer - window.first) * width, weights.rows,
                                        width, weights.stride};
    const MatrixView<double> out{product.data(), weights.rows, width, width};
    multiply_transposed_right(1, part, gram.products(layer, {layer, 1}), 0, out);
    if (const int32_t behind = window.end() - layer - 1; behind > 0)
      multiply_transposed_right(2,
                                {part.data + width, weights.rows, behind * width, weights.stride},
                                gram.products(layer, {layer + 1, behind}), 1, out);
    if (own_width > 0) multiply_transposed_right(2, own, gram.own_products(layer), 1, out);
    add_dots(part, out, forms);
  }
  if (own_width == 0) return forms;
  const MatrixView<double> out{product.data(), weights.rows, own_width, own_width};
  multiply_transposed_right(1, own, gram.own_cross_products(0), 0, out);
  add_dots(own, out, forms);
  return forms;
}

// forms[c] += sum_i w_ci cross_ic.
void add_cross(const double* weights, int64_t stride, const MatrixView<const double>& cross,
               std::vector<double>& forms) {
  for (int64_t i = 0; i < cross.rows; ++i)
    for (int64_t channel = 0; channel < cross.columns; ++channel)
      forms[static_cast<size_t>(channel)] +=
          weights[channel * stride + i] * cross.data[i * cross.stride + channel];
}

// [target_width] w^T (X^T y) of each channel.
std::vector<double> cross_forms(const Gram& gram, LayerWindow window, int32_t target_layer,
                                const MatrixView<const double>& weights) {
  const int64_t width = gram.shape().source_width;
  std::vector<double> forms(static_cast<size_t>(weights.rows));
  for (int32_t layer = window.first; layer < window.end(); ++layer)
    add_cross(weights.data + (layer - window.first) * width, weights.stride,
              gram.cross_products(layer, target_layer), forms);
  add_cross(weights.data + window.count * width, weights.stride,
            gram.own_cross_products(target_layer), forms);
  return forms;
}

}  // namespace

LayerMeans layer_means(const Gram& gram, LayerWindow window, int32_t target_layer) {
  const FitShape& shape = gram.shape();
  return {
      divided(input_sums(gram, window), gram.n_rows()),
      divided(of_layers(gram.target_sums(), target_layer, 1, shape.target_width), gram.n_rows())};
}

std::vector<ChannelSums> channel_sums(const Gram& gram, LayerWindow window, int32_t target_layer,
                                      const LayerMeans& means, std::span<const double> weights) {
  const FitShape& shape = gram.shape();
  const auto features = std::ssize(means.input);
  const MatrixView<const double> map{weights.data(), shape.target_width, features, features};
  const std::vector<double> xx = quadratic_forms(gram, window, map);
  const std::vector<double> xy = cross_forms(gram, window, target_layer, map);
  const std::vector<double> sum_x = input_sums(gram, window);
  const auto sum_y = of_layers(gram.target_sums(), target_layer, 1, shape.target_width);
  const auto sum_yy = of_layers(gram.target_squares(), target_layer, 1, shape.target_width);
  const auto n = static_cast<double>(gram.n_rows());
  std::vector<ChannelSums> sums(static_cast<size_t>(shape.target_width));
  for (size_t c = 0; c < sums.size(); ++c) {
    const double* w = map.data + static_cast<int64_t>(c) * features;
    const double at_mean = dot(w, means.input.data(), features);
    const double at_sum = dot(w, sum_x.data(), features);
    const double mean_y = means.target[c];
    sums[c].p = at_sum - n * at_mean;
    sums[c].y = sum_y[c] - n * mean_y;
    sums[c].pp = xx[c] - 2 * at_mean * at_sum + n * at_mean * at_mean;
    sums[c].py = xy[c] - mean_y * at_sum - at_mean * sum_y[c] + n * at_mean * mean_y;
    sums[c].yy = sum_yy[c] - 2 * mean_y * sum_y[c] + n * mean_y * mean_y;
  }
  return sums;
}

ChannelLine best_line(const ChannelSums& sums, int64_t n_rows) {
  const auto n = static_cast<double>(n_rows);
  const double pp = sums.pp - sums.p * sums.p / n;
  const double py = sums.py - sums.p * sums.y / n;
  const double yy = sums.yy - sums.y * sums.y / n;
  ChannelLine line;
  // A channel that the map leaves where it is has no slope.
  if (pp > 1e-12 * yy) line.gamma = py / pp;
  line.beta = (sums.y - line.gamma * sums.p) / n;
  // Of a map that fits exactly rounding may leave less than nothing.
  line.squared_error = std::max(0.0, yy - 2 * line.gamma * py + line.gamma * line.gamma * pp);
  return line;
}

}  // namespace suture
