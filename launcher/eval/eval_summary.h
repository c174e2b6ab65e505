// What the items of an evaluation say together: means with intervals, and paired comparisons.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/eval/eval_result.h"
#include "launcher/eval/statistics.h"

namespace suture {

// Of two arms, over the items that both were given.
struct Comparison {
  int64_t n = 0;
  double difference = 0;  // of the means; positive = the first is better
  Interval interval;      // 95 %, of the difference
  double p = 1;           // paired test, two-sided
};

struct ArmSummary {
  int64_t n = 0;
  double mean = 0;        // accuracy, or mean share of facts
  Interval interval;      // 95 %
  int64_t degraded = 0;   // items on whose way slaves were lost
  int64_t cut_short = 0;  // answers that were as long as was allowed
  double seconds = 0;     // per item
  // Mean over the items, which stand for its tokens: each counts the same.
  AttentionShares attention;
  std::optional<Comparison> against_alone;
  std::optional<Comparison> against_shuffled;  // of the same gain
  // Stitched arms that were compared with both: whether the arm is better than both, each with an
  // interval that excludes zero and p below level().
  std::optional<bool> gain;
};

struct TaskSummary {
  std::vector<ArmSummary> arms;  // as in the result
  double level = 0.05;           // 0.05 by the number of stitched arms: one of many is often lucky
};

// `seed` draws the samples of bootstrap and permutation tests.
TaskSummary summarise(const TaskResult& task, uint64_t seed);

}  // namespace suture
