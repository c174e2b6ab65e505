#include "bench/load/figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace suture {
namespace {

double nearest_rank(std::span<const double> sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Student's t, two-sided 95 %, for 1 to 10 degrees of freedom; beyond, its approximation by the
// normal quantile z + (z^3 + z) / 4n, good to 2 % there.
double student_quantile(size_t freedom) {
  constexpr std::array kTable = {12.706, 4.303, 3.182, 2.776, 2.571,
                                 2.447,  2.365, 2.306, 2.262, 2.228};
  constexpr double kNormal = 1.960;
  if (freedom <= kTable.size()) return kTable[freedom - 1];
  return kNormal + (kNormal * kNormal * kNormal + kNormal) / (4 * static_cast<double>(freedom));
}

}  // namespace

Quantiles quantiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  return {values.size(), nearest_rank(values, 0.5), nearest_rank(values, 0.99)};
}

double jain_index(std::span<const double> shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double squares = std::inner_product(shares.begin(), shares.end(), shares.begin(), 0.0);
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

Slope least_squares_slope(std::span<const double> x, std::span<const double> y) {
  SUTURE_CHECK(x.size() == y.size(), "{} and {} values", x.size(), y.size());
  if (x.size() < 3) return {};
  const double x_mean = mean(x);
  const double y_mean = mean(y);
  double xx = 0;
  double xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - x_mean) * (x[i] - x_mean);
    xy += (x[i] - x_mean) * (y[i] - y_mean);
  }
  if (xx == 0) return {};
  const double slope = xy / xx;
  double residual = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double off = y[i] - y_mean - slope * (x[i] - x_mean);
    residual += off * off;
  }
  const size_t freedom = x.size() - 2;
  const double error = std::sqrt(residual / static_cast<double>(freedom) / xx);
  const double reach = student_quantile(freedom) * error;
  return {slope, slope - reach, slope + reach};
}

nlohmann::json to_json(const Quantiles& quantiles) {
  return {{"count", quantiles.count}, {"p50", quantiles.p50}, {"p99", quantiles.p99}};
}

nlohmann::json to_json(const Slope& slope) {
  return {{"slope", slope.slope}, {"low", slope.low}, {"high", slope.high}};
}

}  // namespace suture
