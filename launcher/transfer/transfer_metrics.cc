#include "launcher/transfer/transfer_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "base/check.h"

namespace suture {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
// Sums of float32 probabilities are not known any better.
constexpr double kLeastRest = 1e-7;

double rest_of(std::span<const float> logarithms) {
  double sum = 0;
  for (const float value : logarithms) sum += std::exp(static_cast<double>(value));
  return std::max(kLeastRest, 1 - sum);
}

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return kNothing;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

MeanValue mean_value(const std::vector<double>& values, uint64_t seed) {
  MeanValue mean{mean_of(values), {kNothing, kNothing}};
  if (values.size() > 1) mean.interval = bootstrap_interval(values, seed);
  return mean;
}

// Of the sums: a text without context worth by itself is no reason to leave it out.
MeanValue ratio_value(const std::vector<double>& parts, const std::vector<double>& wholes,
                      uint64_t seed) {
  MeanValue ratio{kNothing, {kNothing, kNothing}};
  if (const double whole = mean_of(wholes); whole > 0) ratio.value = mean_of(parts) / whole;
  if (parts.size() > 1) ratio.interval = bootstrap_ratio_interval(parts, wholes, seed);
  return ratio;
}

class ScoreTable {
 public:
  ScoreTable(std::span<const PassageResult> passages, const std::optional<std::string>& kind) {
    for (const PassageResult& passage : passages) {
      const bool complete = std::ranges::all_of(
          passage.arms, [](const std::optional<ArmScore>& score) { return score.has_value(); });
      if (complete && (!kind || passage.kind == *kind)) rows_.push_back(&passage);
    }
  }

  int64_t n() const { return std::ssize(rows_); }
  std::vector<double> column(TransferArm arm, double ArmScore::*field) const {
    std::vector<double> values;
    for (const PassageResult* row : rows_) values.push_back((*row->of(arm)).*field);
    return values;
  }
  // Of each text, how much less likely `worse` finds the continuation than `better`.
  std::vector<double> excess(TransferArm worse, TransferArm better) const {
    std::vector<double> values = column(worse, &ArmScore::nll);
    const std::vector<double> less = column(better, &ArmScore::nll);
    std::ranges::transform(values, less, values.begin(), std::minus<>());
    return values;
  }

 private:
  std::vector<const PassageResult*> rows_;
};

}  // namespace

std::string_view transfer_arm_name(TransferArm arm) {
  switch (arm) {
    case TransferArm::kSelf: return "self";
    case TransferArm::kTransferred: return "transferred";
    case TransferArm::kOtherText: return "other_text";
    case TransferArm::kTextOnly: return "text_only";
    case TransferArm::kNone: return "none";
    case TransferArm::kSource: return "source";
  }
  return "";
}

double divergence(std::span<const float> log_p, std::span<const float> log_q) {
  SUTURE_CHECK(log_p.size() == log_q.size(), "{} and {} tokens", log_p.size(), log_q.size());
  double sum = 0;
  for (size_t i = 0; i < log_p.size(); ++i)
    sum += std::exp(static_cast<double>(log_p[i])) * (static_cast<double>(log_p[i]) - log_q[i]);
  const double rest = rest_of(log_p);
  return sum + rest * std::log(rest / rest_of(log_q));
}

TransferSummary summarise_transfer(std::span<const PassageResult> passages, uint64_t seed,
                                   const std::optional<std::string>& kind) {
  using enum TransferArm;
  const ScoreTable table(passages, kind);
  TransferSummary summary;
  summary.n = table.n();
  for (size_t i = 0; i < kTransferArms; ++i) {
    const auto arm = static_cast<TransferArm>(i);
    summary.nll[i] = mean_value(table.column(arm, &ArmScore::nll), seed);
    summary.kl[i] = mean_value(table.column(arm, &ArmScore::kl), seed);
    summary.top1[i] = mean_value(table.column(arm, &ArmScore::top1), seed);
    summary.consistency[i] = mean_value(table.column(arm, &ArmScore::consistency), seed);
  }
  const std::vector<double> worth = table.excess(kNone, kSelf);
  summary.retention = ratio_value(table.excess(kNone, kTransferred), worth, seed);
  summary.other_retention = ratio_value(table.excess(kNone, kOtherText), worth, seed);
  summary.net_retention =
      ratio_value(table.excess(kTextOnly, kTransferred), table.excess(kTextOnly, kSelf), seed);
  summary.over_source = mean_value(table.excess(kSource, kTransferred), seed);
  summary.over_other_text = mean_value(table.excess(kOtherText, kTransferred), seed);
  summary.over_text_only = mean_value(table.excess(kTextOnly, kTransferred), seed);
  return summary;
}

std::vector<std::string> kinds_of(std::span<const PassageResult> passages) {
  std::set<std::string> kinds;
  for (const PassageResult& passage : passages)
    if (!passage.kind.empty()) kinds.insert(passage.kind);
  return {kinds.begin(), kinds.end()};
}

}  // namespace suture
