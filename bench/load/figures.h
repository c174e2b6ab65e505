// What is said about many measured values.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

namespace suture {

// Half of the values are at most p50, 99 of 100 at most p99 (nearest rank); zeros without values.
struct Quantiles {
  size_t count = 0;
  double p50 = 0;
  double p99 = 0;
};
Quantiles quantiles(std::vector<double> values);

// Jain's index of fairness: 1 when all shares are equal, 1/n when one of n has everything; 1
// without any.
double jain_index(std::span<const double> shares);

// Straight line through (x, y) by least squares. The slope lies between low and high with 95 %
// probability if the deviations are independent; all are 0 with fewer than three points.
struct Slope {
  double slope = 0;
  double low = 0;
  double high = 0;
};
Slope least_squares_slope(std::span<const double> x, std::span<const double> y);

nlohmann::json to_json(const Quantiles& quantiles);
nlohmann::json to_json(const Slope& slope);

}  // namespace suture
