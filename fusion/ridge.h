// Linear maps from a window of one model's layers to a layer of another's, by ridge regression in
// closed form: W = (X^T X + ridge D)^-1 X^T Y, from second moments alone (fusion/gram.h). D is the
// diagonal of X^T X, as if every column had the same scale: those of layers differ a thousandfold,
// and one strength for all would keep the small ones out. Windows and ridges are chosen for each
// target layer by the error on texts that took no part.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/error.h"
#include "fusion/gram.h"

namespace suture {

// What one choice does for one target layer on the held-out rows.
struct RidgeTrial {
  int32_t window = 0;  // source layers
  double ridge = 0;
  int32_t target_layer = 0;
  double r2 = 0;
};

struct RidgeOptions {
  std::vector<int32_t> windows;  // layers, each at most the shape's widest
  std::vector<double> ridges;
  int threads = 1;
  // After each step; may be empty. On any of the threads, one at a time. False ends the work.
  std::function<bool(int64_t done, int64_t total)> on_step;
  // Each choice that was tried, in any order, one at a time; may be empty.
  std::function<void(const RidgeTrial&)> on_trial;
};

// y = gamma * (W (x - mean)) + beta, with x and y as the moments have them.
struct RidgeFit {
  LayerWindow window;
  double ridge = 0;
  std::vector<float> weights;  // [target_width][FitShape::inputs(window)]
  std::vector<double> mean;    // [FitShape::inputs(window)]
  std::vector<double> gamma;   // [target_width]
  std::vector<double> beta;    // [target_width]
  // Of the finished map on the held-out rows: mean squared error of an element, and the share of
  // the variance that is explained.
  double mse = 0;
  double r2 = 0;
};

// One fit for each target layer. Both must have rows, and of the same shape. kInvalidArgument if
// some layer has no sound solution, kCancelled if on_step() ended it.
Result<std::vector<RidgeFit>> fit_ridge(const Gram& fit, const Gram& held_out,
                                        const RidgeOptions& options);

// Memory that fit_ridge() takes beside the moments.
uint64_t ridge_bytes_for(const FitShape& shape, int threads);

}  // namespace suture
