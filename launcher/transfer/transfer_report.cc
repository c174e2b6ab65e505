#include "launcher/transfer/transfer_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "launcher/command.h"

namespace suture {
namespace {

using enum TransferArm;

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

bool is_timed(const TransferTimes& times) {
  return times.normal > 0 && times.source > 0 && times.transfer() > 0;
}

nlohmann::json interval_json(const MeanValue& mean) {
  return {mean.interval.low, mean.interval.high};
}

// JSON has no NaN: what there is nothing to say of becomes null.
nlohmann::json summary_json(const TransferSummary& summary) {
  nlohmann::json json = {{"n", summary.n},
                         {"source_nll", summary.nll_of(kSource).value},
                         {"retention", summary.retention.value},
                         {"net_retention", summary.net_retention.value},
                         {"other_text_retention", summary.other_retention.value}};
  nlohmann::json intervals = {{"retention", interval_json(summary.retention)},
                              {"net_retention", interval_json(summary.net_retention)}};
  for (const TransferArm arm : {kSelf, kTransferred, kOtherText, kTextOnly, kNone}) {
    const std::string name(transfer_arm_name(arm));
    const auto i = static_cast<size_t>(arm);
    json["nll"][name] = summary.nll[i].value;
    intervals["nll"][name] = interval_json(summary.nll[i]);
    if (arm == kSelf) continue;
    json["arms"][name] = {{"kl", summary.kl[i].value}, {"top1", summary.top1[i].value}};
  }
  constexpr auto kAt = static_cast<size_t>(kTransferred);
  json["kl"] = summary.kl[kAt].value;
  json["top1"] = summary.top1[kAt].value;
  json["consistency"] = summary.consistency[kAt].value;
  intervals["kl"] = interval_json(summary.kl[kAt]);
  intervals["top1"] = interval_json(summary.top1[kAt]);
  for (const auto& [name, mean] : {std::pair("source", &summary.over_source),
                                   std::pair("other_text", &summary.over_other_text),
                                   std::pair("text_only", &summary.over_text_only)})
    json["better_than"][name] = {{"nats", mean->value}, {"interval", interval_json(*mean)}};
  json["intervals"] = std::move(intervals);
  return json;
}

nlohmann::json length_json(const LengthReport& length) {
  nlohmann::json json = summary_json(length.all);
  json.update({{"tokens", length.tokens},
               {"joined", length.joined},
               {"normal_s", length.times.normal},
               {"source_s", length.times.source},
               {"transfer_s", length.times.transfer()},
               {"projection_s", length.times.projection},
               {"reread_s", length.times.reread},
               {"whole_s", length.times.whole},
               {"speedup_with_source", length.speedup_with_source()},
               {"speedup_without_source", length.speedup_without_source()},
               {"bound_with_source", length.work.bound_with_source()},
               {"bound_without_source", length.work.bound_without_source()},
               {"kinds", nlohmann::json::object()}});
  for (const auto& [kind, summary] : length.kinds) json["kinds"][kind] = summary_json(summary);
  return json;
}

bool is_finite(const LengthReport& length) {
  const bool told = length.joined || std::ranges::all_of(length.all.nll, [](const MeanValue& mean) {
                      return std::isfinite(mean.value);
                    });
  return told && is_timed(length.times);
}

// The longest contexts whose texts were judged.
const LengthReport* judged(const TransferReport& report) {
  for (auto length = report.lengths.rbegin(); length != report.lengths.rend(); ++length)
    if (length->all.n > 0) return &*length;
  return nullptr;
}

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.0f} %", 100 * share) : "nothing that can be told";
}

struct Contest {
  std::string_view against;
  const MeanValue* excess;
};

// "it beats A and B; it does not beat C".
std::string contests_text(const std::vector<Contest>& contests) {
  std::vector<std::string> won, open;
  for (const Contest& contest : contests)
    (contest.excess->interval.low > 0 ? won : open)
        .push_back(fmt::format("{} ({:+.3f} nats)", contest.against, contest.excess->value));
  std::string text;
  if (!won.empty()) text += fmt::format("It beats {}.", fmt::join(won, ", "));
  if (!open.empty())
    text += fmt::format("{}It is not shown to beat {}.", text.empty() ? "" : " ",
                        fmt::join(open, ", "));
  return text;
}

std::string speed_text(const LengthReport& length) {
  return fmt::format(
      "At {} tokens it is {:.1f} x as fast as reading again with the source's reading (arithmetic "
      "allows {:.1f}), {:.1f} x without it ({:.1f}).",
      length.tokens, length.speedup_with_source(), length.work.bound_with_source(),
      length.speedup_without_source(), length.work.bound_without_source());
}

}  // namespace

double LengthReport::speedup_with_source() const {
  return is_timed(times) ? times.normal / times.whole : kNothing;
}

double LengthReport::speedup_without_source() const {
  return is_timed(times) ? times.normal / times.transfer() : kNothing;
}

LengthReport length_report(const LengthPlan& plan, const LengthResult& result,
                           const TransferWork& work, uint64_t seed) {
  LengthReport report;
  report.tokens = plan.tokens;
  report.joined = plan.joined;
  report.passages = std::ssize(plan.passages);
  report.all = summarise_transfer(result.passages, seed);
  for (const std::string& kind : kinds_of(result.passages))
    report.kinds.emplace_back(kind, summarise_transfer(result.passages, seed, kind));
  report.times = result.times;
  report.work = work;
  return report;
}

std::string unsound(const TransferReport& report) {
  if (report.ended_by) return fmt::format("it ended early: {}", report.ended_by->message());
  if (report.fitted_measured)
    return fmt::format("{} of the texts are among those that the projector was fitted to",
                       report.fitted);
  if (!report.forced.empty())
    return fmt::format("the projector is not for these models: {}", fmt::join(report.forced, ", "));
  for (const LengthReport& length : report.lengths) {
    if (!is_finite(length))
      return fmt::format("at {} tokens a number is missing or infinite", length.tokens);
    if (length.all.n != length.passages)
      return fmt::format("at {} tokens {} of {} texts were judged", length.tokens, length.all.n,
                         length.passages);
  }
  if (judged(report) == nullptr) return "no text is as long as the shortest context";
  return {};
}

std::string transfer_verdict(const TransferReport& report) {
  std::string text = unsound(report);
  if (!text.empty()) text = fmt::format("Not sound: {}. ", text);
  const LengthReport* length = judged(report);
  if (length == nullptr) return text + "Nothing was judged.";
  const TransferSummary& all = length->all;
  text += fmt::format(
      "At {} tokens ({} texts) the transferred target keeps {} of what the context is worth, {} "
      "net "
      "of the tokens that it reads again itself. ",
      length->tokens, all.n, percent(all.retention.value), percent(all.net_retention.value));
  std::vector<Contest> contests = {{"another text's rows", &all.over_other_text},
                                   {"the tokens read again alone", &all.over_text_only}};
  if (report.source != report.target)
    contests.insert(contests.begin(), {"the source that read the text", &all.over_source});
  text += contests_text(contests);
  if (!report.ended_by) text += fmt::format(" {}", speed_text(report.lengths.back()));
  return text;
}

ProjectorEvidence evidence_of(const TransferReport& report) {
  ProjectorEvidence evidence{
      .sink = report.sink, .reread = report.reread, .continued = report.continued, .contexts = {}};
  for (const LengthReport& length : report.lengths) {
    const TransferSummary& all = length.all;
    if (all.n == 0) continue;
    evidence.contexts.push_back(
        {.tokens = length.tokens,
         .n = all.n,
         .nll = {.self = all.nll_of(kSelf).value,
                 .transferred = all.nll_of(kTransferred).value,
                 .other_text = all.nll_of(kOtherText).value,
                 .text_only = all.nll_of(kTextOnly).value,
                 .none = all.nll_of(kNone).value},
         .consistency = all.consistency[static_cast<size_t>(kTransferred)].value});
  }
  return evidence;
}

nlohmann::json transfer_json(const TransferReport& report) {
  const std::string why = unsound(report);
  nlohmann::json json = {{"source", report.source},
                         {"target", report.target},
                         {"projector", nullptr},
                         {"sink", report.sink},
                         {"reread", report.reread},
                         {"continued", report.continued},
                         {"threads", report.threads},
                         {"seed", report.seed},
                         {"texts",
                          {{"measured", report.texts},
                           {"duplicates", report.duplicates},
                           {"fitted", report.fitted},
                           {"fitted_measured", report.fitted_measured}}},
                         {"forced", report.forced},
                         {"notes", report.notes},
                         {"contexts", nlohmann::json::array()},
                         {"seconds", report.seconds},
                         {"complete", !report.ended_by.has_value()},
                         {"sound", why.empty()},
                         {"verdict", transfer_verdict(report)}};
  if (!report.projector.empty()) json["projector"] = report.projector;
  if (!why.empty()) json["unsound"] = why;
  if (report.ended_by) json["ended_by"] = error_json(*report.ended_by);
  for (const LengthReport& length : report.lengths) json["contexts"].push_back(length_json(length));
  return json;
}

}  // namespace suture
