// What each choice of window and ridge was worth: means over the target's layers of the share of
// the held-out rows' variance that is explained.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "fusion/ridge.h"

namespace suture {

struct FitTrial {
  int32_t window = 0;  // source layers
  double ridge = 0;
  double key_r2 = 0;
  double value_r2 = 0;
};

class FitTrials {
 public:
  enum class What : uint8_t { kKey, kValue };
  void add(What what, const RidgeTrial& trial);

  // By window, widest first, then by ridge, strongest first; choices that were tried for K and V.
  std::vector<FitTrial> means() const;
  // Of each window the ridge that is best for the sum of both.
  std::vector<FitTrial> best_by_window() const;

 private:
  struct Sum {
    double r2 = 0;
    int64_t n = 0;
    double mean() const { return r2 / static_cast<double>(n); }
  };
  using Sums = std::map<std::pair<int32_t, double>, Sum, std::greater<>>;
  Sums key_;
  Sums value_;
};

}  // namespace suture
