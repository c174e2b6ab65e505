#include "launcher/bench/estimate.h"

#include <algorithm>
#include <cmath>

namespace suture {
namespace {

// How many of n ordered values can be left out at each end: as many values below the median as
// that, or fewer, have at most 2.5 % probability, each value lying below it with probability 1/2.
size_t left_out(size_t n) {
  double log_ways = 0;  // of choosing k of n
  double probability = 0;
  for (size_t k = 0; k < n; ++k) {
    probability += std::exp(log_ways - static_cast<double>(n) * std::log(2.0));
    if (probability > 0.025) return k > 0 ? k - 1 : 0;
    log_ways += std::log(static_cast<double>(n - k)) - std::log(static_cast<double>(k + 1));
  }
  return 0;
}

}  // namespace

Estimate estimate(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const size_t out = left_out(n);
  return {.median = (values[(n - 1) / 2] + values[n / 2]) / 2,
          .low = values[out],
          .high = values[n - 1 - out],
          .count = static_cast<int64_t>(n)};
}

}  // namespace suture
