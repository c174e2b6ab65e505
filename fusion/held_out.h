// How well a linear map does on rows of which only the second moments were kept.
#pragma once

#include <span>
#include <vector>

#include "fusion/gram.h"

namespace suture {

// Sums over rows for one output channel: p is what the map gives, W (x - input_mean); y is what it
// should give, relative to target_mean.
struct ChannelSums {
  double p = 0;
  double y = 0;
  double pp = 0;
  double py = 0;
  double yy = 0;

  double squared_error() const { return yy - 2 * py + pp; }
};

struct LayerMeans {
  std::vector<double> input;   // [FitShape::inputs(window)]
  std::vector<double> target;  // [target_width]
};

// Mean rows of what a map takes and of the target layer. There must be rows.
LayerMeans layer_means(const Gram& gram, LayerWindow window, int32_t target_layer);

// [target_width]. weights: [target_width][FitShape::inputs(window)].
std::vector<ChannelSums> channel_sums(const Gram& gram, LayerWindow window, int32_t target_layer,
                                      const LayerMeans& means, std::span<const double> weights);

// The line gamma * p + beta that is nearest to y, for one channel.
struct ChannelLine {
  double gamma = 1;
  double beta = 0;
  double squared_error = 0;  // sum over the rows
};
ChannelLine best_line(const ChannelSums& sums, int64_t n_rows);

}  // namespace suture
