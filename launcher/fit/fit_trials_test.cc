#include "launcher/fit/fit_trials.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

using What = FitTrials::What;

TEST(FitTrials, MeansOverLayersOfWhatWasTriedForBoth) {
  FitTrials trials;
  trials.add(What::kKey, {.window = 4, .ridge = 1e-3, .target_layer = 0, .r2 = 0.5});
  trials.add(What::kKey, {.window = 4, .ridge = 1e-3, .target_layer = 1, .r2 = 0.75});
  trials.add(What::kKey, {.window = 8, .ridge = 1e-3, .target_layer = 0, .r2 = 0.25});
  trials.add(What::kValue, {.window = 4, .ridge = 1e-3, .target_layer = 0, .r2 = 0.125});
  const auto means = trials.means();
  ASSERT_EQ(means.size(), 1);
  EXPECT_EQ(means[0].window, 4);
  EXPECT_EQ(means[0].ridge, 1e-3);
  EXPECT_EQ(means[0].key_r2, 0.625);
  EXPECT_EQ(means[0].value_r2, 0.125);
}

TEST(FitTrials, OfEachWindowTheRidgeThatServesBothBest) {
  FitTrials trials;
  const auto add = [&trials](int32_t window, double ridge, double key, double value) {
    trials.add(What::kKey, {.window = window, .ridge = ridge, .r2 = key});
    trials.add(What::kValue, {.window = window, .ridge = ridge, .r2 = value});
  };
  add(4, 1e-2, 0.5, 0.25);
  add(4, 1e-6, 0.25, 0.25);
  add(24, 1e-2, 0.5, 0.5);
  add(24, 1e-4, 0.75, 0.5);
  add(24, 1e-6, 0.75, 0.375);
  EXPECT_EQ(trials.means().size(), 5);
  const auto best = trials.best_by_window();
  ASSERT_EQ(best.size(), 2);
  EXPECT_EQ(best[0].window, 24);
  EXPECT_EQ(best[0].ridge, 1e-4);
  EXPECT_EQ(best[1].window, 4);
  EXPECT_EQ(best[1].ridge, 1e-2);
}

}  // namespace
}  // namespace suture
