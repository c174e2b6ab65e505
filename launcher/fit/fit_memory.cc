#include "launcher/fit/fit_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "fusion/fit_moments.h"
#include "fusion/ridge.h"

namespace suture {
namespace {

FitMemory memory_of(const FitDemand& demand, const FitShape& shape, int32_t n_kinds) {
  FitMemory memory;
  memory.models_bytes = demand.models_bytes;
  memory.moments_bytes = 2 * FitMoments::bytes_for(shape, n_kinds);
  const auto features = static_cast<uint64_t>(shape.source_features() + shape.target_features());
  memory.rows_bytes = 2 * static_cast<uint64_t>(demand.rows) * features * sizeof(float) +
                      Gram::scratch_bytes_for(shape, demand.threads);
  // All held-out rows together; maps of K in float32 while those of V are made, and all once more
  // in 16 bits.
  const auto widest = static_cast<uint64_t>(shape.inputs({0, shape.widest}));
  const uint64_t maps = 2 * widest * static_cast<uint64_t>(shape.target_features());
  memory.solving_bytes =
      Gram::bytes_for(shape) + ridge_bytes_for(shape, demand.threads) + maps * sizeof(float);
  memory.limit_bytes = demand.limit_bytes;
  return memory;
}

std::string remedy(const FitDemand& demand) {
  return demand.windows_are_fixed ? "raise --memory, or give a narrower --window"
                                  : "raise --memory, or choose smaller models";
}

}  // namespace

uint64_t FitMemory::most_bytes() const {
  return moments_bytes + std::max(models_bytes + rows_bytes, solving_bytes);
}

Result<FitPlan> plan_fit(const FitDemand& demand) {
  FitPlan plan{.shape = demand.shape, .windows = demand.windows};
  while (true) {
    plan.shape.widest = plan.windows.back();
    for (const int32_t n_kinds : {demand.n_kinds, 1}) {
      plan.n_kinds = n_kinds;
      plan.memory = memory_of(demand, plan.shape, n_kinds);
      if (plan.memory.most_bytes() <= demand.limit_bytes) return plan;
    }
    if (demand.windows_are_fixed || plan.windows.size() == 1) break;
    plan.windows.pop_back();
  }
  return fail(ErrorCode::kOutOfMemory,
              fmt::format("{} MB of memory are needed with a window of {} source layers, {} MB may "
                          "be used",
                          plan.memory.most_bytes() / 1'000'000, plan.shape.widest,
                          demand.limit_bytes / 1'000'000),
              "fit", remedy(demand));
}

}  // namespace suture
