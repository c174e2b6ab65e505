#include "fusion/map_error.h"

#include <algorithm>
#include <vector>

#include "fusion/held_out.h"

namespace suture {

MapError map_error(const Gram& rows, int32_t target_layer, const RidgeFit& fit) {
  const std::vector<double> weights(fit.weights.begin(), fit.weights.end());
  const LayerMeans at{fit.mean, fit.beta};
  const auto sums = channel_sums(rows, fit.window, target_layer, at, weights);
  const auto n = static_cast<double>(rows.n_rows());
  MapError error;
  error.elements = rows.n_rows() * std::ssize(sums);
  for (size_t c = 0; c < sums.size(); ++c) {
    const double gamma = fit.gamma[c];
    error.squared_error +=
        std::max(0.0, sums[c].yy - 2 * gamma * sums[c].py + gamma * gamma * sums[c].pp);
    error.variance += sums[c].yy - sums[c].y * sums[c].y / n;
  }
  return error;
}

}  // namespace suture
