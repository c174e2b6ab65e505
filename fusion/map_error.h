// How well a finished map does on rows of which only the second moments were kept.
#pragma once

#include <cstdint>

#include "fusion/gram.h"
#include "fusion/ridge.h"

namespace suture {

struct MapError {
  double squared_error = 0;  // sum over rows and channels
  double variance = 0;       // the same of the rows around their own mean
  int64_t elements = 0;

  double mse() const { return squared_error / static_cast<double>(elements); }
  // Share of the variance that is explained; 0 of rows that do not vary.
  double r2() const { return variance > 0 ? 1 - squared_error / variance : 0; }
};

// There must be rows.
MapError map_error(const Gram& rows, int32_t target_layer, const RidgeFit& fit);

}  // namespace suture
