// A projector made of fitted maps.
#pragma once

#include <vector>

#include "base/error.h"
#include "fusion/fit_moments.h"
#include "fusion/projector.h"
#include "fusion/ridge.h"

namespace suture {

// One map for each layer of the target; `moments` are those that they were fitted to.
struct FittedMaps {
  const std::vector<RidgeFit>& fits;
  const FitMoments& moments;
};

// Maps as a projector has them, with weights in 16 bits, for rows as the models have them: the
// moments' origin comes back into means and betas. `projector` has its two sides.
Status set_maps(const FittedMaps& key, const FittedMaps& value, DType dtype, Projector& projector);

// How the maps do on each kind of held-out text that has rows. `names` are those of the kinds, and
// `texts` how many of each were read.
std::vector<HeldOutKind> held_out_kinds(const FittedMaps& key, const FittedMaps& value,
                                        const std::vector<std::string>& names,
                                        const std::vector<int64_t>& texts);

// How they do on the texts that they were fitted to: where that is much better, more text helps.
HeldOutKind fitted_error(const FittedMaps& key, const FittedMaps& value, int64_t texts);

}  // namespace suture
