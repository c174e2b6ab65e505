#include "launcher/eval/eval_summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace suture {
namespace {

constexpr double kLevel = 0.05;

bool is_binary(const std::vector<double>& scores) {
  return std::ranges::all_of(scores, [](double score) { return score == 0 || score == 1; });
}

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Comparison compare(const ArmResult& first, const ArmResult& second, uint64_t seed) {
  std::vector<double> differences;
  std::vector<double> scores;
  PairedCounts counts;
  for (size_t i = 0; i < first.judged.size(); ++i) {
    if (!first.judged[i] || !second.judged[i]) continue;
    const double a = first.judged[i]->score;
    const double b = second.judged[i]->score;
    differences.push_back(a - b);
    scores.insert(scores.end(), {a, b});
    ++(a > b   ? counts.only_first
       : b > a ? counts.only_second
       : a > 0 ? counts.both
               : counts.neither);
  }
  Comparison comparison;
  comparison.n = std::ssize(differences);
  comparison.difference = mean_of(differences);
  comparison.interval = bootstrap_interval(differences, seed);
  comparison.p = is_binary(scores) ? mcnemar_exact(counts) : permutation_test(differences, seed);
  return comparison;
}

ArmSummary summarise_arm(const ArmResult& arm, uint64_t seed) {
  ArmSummary summary;
  std::vector<double> scores;
  for (const auto& judged : arm.judged) {
    if (!judged) continue;
    scores.push_back(judged->score);
    summary.seconds += judged->seconds;
    if (judged->degraded) ++summary.degraded;
    if (judged->cut_short) ++summary.cut_short;
    AttentionShares attention = judged->attention;
    attention.tokens = std::min<int64_t>(attention.tokens, 1);
    const Status added = add(summary.attention, attention);
    SUTURE_CHECK(added.has_value(), "{}", added.error().message());
  }
  summary.n = std::ssize(scores);
  summary.mean = mean_of(scores);
  if (summary.n > 0) summary.seconds /= static_cast<double>(summary.n);
  summary.interval = is_binary(scores) ? wilson_interval(std::ranges::count(scores, 1.0), summary.n)
                                       : bootstrap_interval(scores, seed);
  return summary;
}

const ArmResult* find(const TaskResult& task, const Arm& wanted) {
  const auto found = std::ranges::find(task.arms, wanted, &ArmResult::arm);
  return found == task.arms.end() ? nullptr : &*found;
}

bool is_better(const Comparison& comparison, double level) {
  return comparison.interval.low > 0 && comparison.p < level;
}

}  // namespace

TaskSummary summarise(const TaskResult& task, uint64_t seed) {
  TaskSummary summary;
  const auto stitched = std::ranges::count(task.arms, ArmKind::kStitched,
                                           [](const ArmResult& result) { return result.arm.kind; });
  summary.level = kLevel / static_cast<double>(std::max<int64_t>(1, stitched));
  const ArmResult* alone = find(task, {.kind = ArmKind::kMasterAlone});
  for (const ArmResult& result : task.arms) {
    ArmSummary& arm = summary.arms.emplace_back(summarise_arm(result, seed));
    if (alone != nullptr && result.arm.kind != ArmKind::kMasterAlone)
      arm.against_alone = compare(result, *alone, seed);
    if (result.arm.kind != ArmKind::kStitched) continue;
    const ArmResult* shuffled = find(task, {.kind = ArmKind::kShuffled, .gain = result.arm.gain});
    if (shuffled != nullptr) arm.against_shuffled = compare(result, *shuffled, seed);
    if (arm.against_alone && arm.against_shuffled)
      arm.gain = is_better(*arm.against_alone, summary.level) &&
                 is_better(*arm.against_shuffled, summary.level);
  }
  return summary;
}

}  // namespace suture
