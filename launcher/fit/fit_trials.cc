#include "launcher/fit/fit_trials.h"

namespace suture {

void FitTrials::add(What what, const RidgeTrial& trial) {
  Sum& sum = (what == What::kKey ? key_ : value_)[{trial.window, trial.ridge}];
  sum.r2 += trial.r2;
  sum.n += 1;
}

std::vector<FitTrial> FitTrials::means() const {
  std::vector<FitTrial> means;
  for (const auto& [choice, key] : key_) {
    const auto value = value_.find(choice);
    if (value == value_.end()) continue;
    means.push_back({choice.first, choice.second, key.mean(), value->second.mean()});
  }
  return means;
}

std::vector<FitTrial> FitTrials::best_by_window() const {
  const auto worth = [](const FitTrial& trial) { return trial.key_r2 + trial.value_r2; };
  std::vector<FitTrial> best;
  for (const FitTrial& trial : means()) {
    if (best.empty() || best.back().window != trial.window)
      best.push_back(trial);
    else if (worth(trial) > worth(best.back()))
      best.back() = trial;
  }
  return best;
}

}  // namespace suture
