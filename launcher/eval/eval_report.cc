#include "launcher/eval/eval_report.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "launcher/attention_json.h"
#include "launcher/attention_table.h"
#include "launcher/command.h"
#include "launcher/eval/eval_summary.h"

namespace suture {
namespace {

nlohmann::json to_json(const std::optional<Comparison>& comparison) {
  if (!comparison) return nullptr;
  return {{"n", comparison->n},
          {"difference", comparison->difference},
          {"interval", {comparison->interval.low, comparison->interval.high}},
          {"p", comparison->p}};
}

nlohmann::json items_json(const TaskResult& task, const ArmResult& arm) {
  nlohmann::json items = nlohmann::json::array();
  for (size_t i = 0; i < arm.judged.size(); ++i)
    if (const auto& judged = arm.judged[i])
      items.push_back({{"id", task.ids[i]},
                       {"score", judged->score},
                       {"answer", judged->answer},
                       {"degraded", judged->degraded},
                       {"cut_short", judged->cut_short},
                       {"seconds", judged->seconds}});
  return items;
}

nlohmann::json arm_json(const LaunchSpec& topology, const TaskResult& task, const ArmResult& arm,
                        const ArmSummary& summary) {
  nlohmann::json json = {{"arm", arm_kind_name(arm.arm.kind)},
                         {"name", arm_name(arm.arm, topology)},
                         {"n", summary.n},
                         {"score", summary.mean},
                         {"interval", {summary.interval.low, summary.interval.high}},
                         {"refused", arm.refused},
                         {"degraded", summary.degraded},
                         {"cut_short", summary.cut_short},
                         {"seconds_per_item", summary.seconds},
                         {"against_alone", to_json(summary.against_alone)},
                         {"against_shuffled", to_json(summary.against_shuffled)},
                         {"items", items_json(task, arm)}};
  // JSON has no infinity.
  if (arm.arm.gain) json["gain"] = fmt::format("{}", *arm.arm.gain);
  if (arm.refused > 0) json["why_refused"] = arm.why_refused;
  if (summary.gain) json["is_gain"] = *summary.gain;
  if (!summary.attention.empty()) {
    json["attention"] = to_json(summary.attention);
    json["attention"]["items"] = json["attention"]["tokens"];
    json["attention"].erase("tokens");
  }
  return json;
}

// How scores of a metric are written: shares in percent, log-likelihoods in nats.
struct ScoreFormat {
  double scale;
  int digits;
  std::string_view title;
};

ScoreFormat score_format(Metric metric) {
  return is_share(metric) ? ScoreFormat{100, 1, "score %"} : ScoreFormat{1, 4, "ln p a token"};
}

std::string interval_text(const Interval& interval, const ScoreFormat& format) {
  return fmt::format("{:.{}f} to {:.{}f}", interval.low * format.scale, format.digits,
                     interval.high * format.scale, format.digits);
}

std::string comparison_text(const std::optional<Comparison>& comparison,
                            const ScoreFormat& format) {
  if (!comparison) return "";
  return fmt::format("{:+.{}f} ({}), p = {:.3g}", format.scale * comparison->difference,
                     format.digits, interval_text(comparison->interval, format), comparison->p);
}

std::string_view verdict(const ArmSummary& arm) {
  if (!arm.gain) return "";
  return *arm.gain ? "**gain**" : "no gain shown";
}

std::string notes(const TaskResult& task, const TaskSummary& summary, const LaunchSpec& topology) {
  std::string text;
  for (size_t i = 0; i < task.arms.size(); ++i) {
    const ArmResult& arm = task.arms[i];
    if (arm.refused > 0)
      text += fmt::format("- {}: {} items were refused ({}).\n", arm_name(arm.arm, topology),
                          arm.refused, arm.why_refused.substr(0, arm.why_refused.find('\n')));
    if (summary.arms[i].degraded > 0)
      text += fmt::format("- {}: slaves were lost in {} items, which count all the same.\n",
                          arm_name(arm.arm, topology), summary.arms[i].degraded);
    if (summary.arms[i].cut_short > 0)
      text +=
          fmt::format("- {}: {} of {} answers cut short (--max-tokens, max_seq_len).\n",
                      arm_name(arm.arm, topology), summary.arms[i].cut_short, summary.arms[i].n);
  }
  return text.empty() ? text : "\n" + text;
}

// Of arms in which there is anything to look at but the master's own tokens.
std::string attention_report(const TaskResult& task, const TaskSummary& summary,
                             const LaunchSpec& topology) {
  std::string text;
  for (size_t i = 0; i < task.arms.size(); ++i) {
    const AttentionShares& shares = summary.arms[i].attention;
    if (shares.empty() || (shares.readers.size() == 1 && shares.keywords.empty())) continue;
    text += fmt::format("\n### Where {} looks\n\nShare of attention in %, mean of {} items.\n\n{}",
                        arm_name(task.arms[i].arm, topology), shares.tokens,
                        attention_markdown(shares));
  }
  return text;
}

std::string task_report(const LaunchSpec& topology, const TaskResult& task, uint64_t seed) {
  const TaskSummary summary = summarise(task, seed);
  const ScoreFormat format = score_format(task.metric);
  std::string text = fmt::format(
      "\n## {}, by {}\n\n{} items.\n\n"
      "| arm | n | {} (95 %) | against master alone | against another item's message | "
      "s per item | |\n|---|---|---|---|---|---|---|\n",
      task.set, metric_name(task.metric), task.ids.size(), format.title);
  for (size_t i = 0; i < task.arms.size(); ++i) {
    const ArmSummary& arm = summary.arms[i];
    text += fmt::format("| {} | {} | {:.{}f} ({}) | {} | {} | {:.2f} | {} |\n",
                        arm_name(task.arms[i].arm, topology), arm.n, format.scale * arm.mean,
                        format.digits, interval_text(arm.interval, format),
                        comparison_text(arm.against_alone, format),
                        comparison_text(arm.against_shuffled, format), arm.seconds, verdict(arm));
  }
  return text + notes(task, summary, topology) + attention_report(task, summary, topology);
}

std::string models_text(const LaunchSpec& topology) {
  std::string text;
  for (const ModelSpec& model : topology.models) {
    text += fmt::format("- {} ({}): {}", model.name,
                        model.role == Role::kMaster ? "master" : "slave", model.path_text);
    if (model.role == Role::kSlave)
      text += fmt::format(", {}",
                          model.fusion.position == SlavePosition::kPrefix ? "prefix" : "aligned");
    text += "\n";
  }
  return text;
}

std::string ending_text(const EvalResult& result) {
  if (!result.ended_by) return "";
  const bool interrupted = result.ended_by->code == ErrorCode::kCancelled;
  return fmt::format("\n**{}**: what was measured until then follows.\n",
                     interrupted ? "Interrupted" : "Ended by an error: " + result.ended_by->what);
}

}  // namespace

nlohmann::json eval_json(const LaunchSpec& topology, const EvalResult& result, uint64_t seed) {
  nlohmann::json json = {{"topology", topology.topology_path.string()},
                         {"seed", seed},
                         {"seconds", result.seconds},
                         {"complete", !result.ended_by.has_value()},
                         {"tasks", nlohmann::json::array()}};
  if (result.ended_by) json["ended_by"] = error_json(*result.ended_by);
  for (const TaskResult& task : result.tasks) {
    const TaskSummary summary = summarise(task, seed);
    nlohmann::json& entry =
        json["tasks"].emplace_back(nlohmann::json{{"set", task.set},
                                                  {"metric", metric_name(task.metric)},
                                                  {"items", task.ids.size()},
                                                  {"level", summary.level},
                                                  {"arms", nlohmann::json::array()}});
    for (size_t i = 0; i < task.arms.size(); ++i)
      entry["arms"].push_back(arm_json(topology, task, task.arms[i], summary.arms[i]));
  }
  return json;
}

std::string eval_report(const LaunchSpec& topology, const EvalResult& result, uint64_t seed) {
  std::string text = fmt::format("# Evaluation of {}\n\n{}\nSeed {}, {:.0f} s.\n{}",
                                 topology.topology_path.filename().string(), models_text(topology),
                                 seed, result.seconds, ending_text(result));
  for (const TaskResult& task : result.tasks) text += task_report(topology, task, seed);
  text +=
      "\nIntervals of shares are Wilson's, others and those of differences are percentile "
      "bootstrap. p is McNemar's exact test where items are right or wrong, else a paired "
      "permutation test. A stitched arm is called a gain only if it beats both the master alone "
      "and the same arm with another item's message: intervals above zero, and p below 0.05 "
      "divided by the number of stitched arms.\n";
  return text;
}

}  // namespace suture
