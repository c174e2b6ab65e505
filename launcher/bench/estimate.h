// The middle of repeated measurements, and between which bounds it lies.
#pragma once

#include <cstdint>
#include <vector>

namespace suture {

struct Estimate {
  double median = 0;
  // The median of all measurements that could be made lies between these two of those made, with at
  // least 95 % probability and whatever their distribution. Five and fewer cannot promise that
  // much: then they are the least and the greatest (94 % with five).
  double low = 0;
  double high = 0;
  int64_t count = 0;
};

// Zeros without values.
Estimate estimate(std::vector<double> values);

}  // namespace suture
