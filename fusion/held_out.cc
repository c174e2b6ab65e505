#include "fusion/held_out.h"

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

// [target_width] w^T (X^T X) w for each row w of the weights. The blocks above the diagonal count
// twice, for those below.
std::vector<double> quadratic_forms(const Gram& gram, LayerWindow window,
                                    const MatrixView<const double>& weights) {
  const int64_t width = gram.shape().source_width;
  std::vector<double> forms(static_cast<size_t>(weights.rows));
  std::vector<double> product(static_cast<size_t>(weights.rows * width));
  for (int32_t layer = window.first; layer < window.end(); ++layer) {
    const int64_t begin = (layer - window.first) * width;
    const MatrixView<const double> own{weights.data + begin, weights.rows, width, weights.stride};
    const MatrixView<double> out{product.data(), weights.rows, width, width};
    multiply_transposed_right(1, own, gram.products(layer, {layer, 1}), 0, out);
    if (const int32_t behind = window.end() - layer - 1; behind > 0)
      multiply_transposed_right(2, {own.data + width, weights.rows, behind * width, weights.stride},
                                gram.products(layer, {layer + 1, behind}), 1, out);
    for (int64_t channel = 0; channel < weights.rows; ++channel)
      forms[static_cast<size_t>(channel)] +=
          dot(own.data + channel * weights.stride, product.data() + channel * width, width);
  }
  return forms;
}

// [target_width] w^T (X^T y) of each channel.
std::vector<double> cross_forms(const Gram& gram, LayerWindow window, int32_t target_layer,
                                const MatrixView<const double>& weights) {
  const int64_t width = gram.shape().source_width;
  std::vector<double> forms(static_cast<size_t>(weights.rows));
  for (int32_t layer = window.first; layer < window.end(); ++layer) {
    const MatrixView<const double> cross = gram.cross_products(layer, target_layer);
    const double* own = weights.data + (layer - window.first) * width;
    for (int64_t i = 0; i < width; ++i)
      for (int64_t channel = 0; channel < weights.rows; ++channel)
        forms[static_cast<size_t>(channel)] +=
            own[channel * weights.stride + i] * cross.data[i * cross.stride + channel];
  }
  return forms;
}

}  // namespace

LayerMeans layer_means(const Gram& gram, LayerWindow window, int32_t target_layer) {
  const FitShape& shape = gram.shape();
  return {
      divided(of_layers(gram.source_sums(), window.first, window.count, shape.source_width),
              gram.n_rows()),
      divided(of_layers(gram.target_sums(), target_layer, 1, shape.target_width), gram.n_rows())};
}

std::vector<ChannelSums> channel_sums(const Gram& gram, LayerWindow window, int32_t target_layer,
                                      const LayerMeans& means, std::span<const double> weights) {
  const FitShape& shape = gram.shape();
  const auto features = std::ssize(means.source);
  const MatrixView<const double> map{weights.data(), shape.target_width, features, features};
  const std::vector<double> xx = quadratic_forms(gram, window, map);
  const std::vector<double> xy = cross_forms(gram, window, target_layer, map);
  const auto sum_x = of_layers(gram.source_sums(), window.first, window.count, shape.source_width);
  const auto sum_y = of_layers(gram.target_sums(), target_layer, 1, shape.target_width);
  const auto sum_yy = of_layers(gram.target_squares(), target_layer, 1, shape.target_width);
  const auto n = static_cast<double>(gram.n_rows());
  std::vector<ChannelSums> sums(static_cast<size_t>(shape.target_width));
  for (size_t c = 0; c < sums.size(); ++c) {
    const double* w = map.data + static_cast<int64_t>(c) * features;
    const double at_mean = dot(w, means.source.data(), features);
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
  line.squared_error = yy - 2 * line.gamma * py + line.gamma * line.gamma * pp;
  return line;
}

}  // namespace suture
