// The part of the report that people read (launcher/transfer/transfer_report.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "launcher/transfer/transfer_report.h"

namespace suture {
namespace {

using enum TransferArm;

constexpr std::array kColumns = {kSelf, kTransferred, kOtherText, kTextOnly, kNone, kSource};
constexpr int kPlotWidth = 56;

// "80 (74 to 85)".
std::string share_text(const MeanValue& mean) {
  if (!std::isfinite(mean.value)) return "-";
  const std::string value = fmt::format("{:.0f}", 100 * mean.value);
  if (!std::isfinite(mean.interval.low) || !std::isfinite(mean.interval.high)) return value;
  return fmt::format("{} ({:.0f} to {:.0f})", value, 100 * mean.interval.low,
                     100 * mean.interval.high);
}

std::string quality_row(const std::string& label, const TransferSummary& summary) {
  std::string row = fmt::format("{:>14} {:>4}", label, summary.n);
  for (const TransferArm arm : kColumns)
    row += fmt::format(" {:>11.3f}", summary.nll_of(arm).value);
  constexpr auto kAt = static_cast<size_t>(kTransferred);
  return row + fmt::format("  {:>16} {:>16} {:>7.3f} {:>6.0f}\n", share_text(summary.retention),
                           share_text(summary.net_retention), summary.kl[kAt].value,
                           100 * summary.top1[kAt].value);
}

std::string quality_table(const TransferReport& report) {
  std::string text = fmt::format(
      "Mean negative log-likelihood of the next {} tokens, in nats (less is better); shares in %, "
      "95 % intervals over texts\n{:>14} {:>4}",
      report.continued, "tokens", "n");
  for (const std::string_view name :
       {"self", "transferred", "other text", "text only", "no context", "source"})
    text += fmt::format(" {:>11}", name);
  text += fmt::format("  {:>16} {:>16} {:>7} {:>6}\n", "retention", "net", "KL", "top-1");
  for (const LengthReport& length : report.lengths) {
    if (length.all.n == 0) continue;
    text += quality_row(fmt::to_string(length.tokens), length.all);
    for (const auto& [kind, summary] : length.kinds)
      if (summary.n > 0) text += quality_row(kind.substr(0, 14), summary);
  }
  return text;
}

std::string seconds_text(double seconds) {
  return seconds > 0 ? fmt::format("{:.3f}", seconds) : "-";
}

std::string speed_text(double speedup, double bound) {
  if (!std::isfinite(speedup)) return "-";
  return fmt::format("{:.{}f} x of {:.{}f}", speedup, speedup < 10 ? 2 : 1, bound,
                     bound < 10 ? 2 : 1);
}

std::string time_table(const TransferReport& report) {
  std::string text = fmt::format(
      "Seconds, with {} threads; speed-up beside what arithmetic allows\n"
      "{:>9} {:>9} {:>9} + {:>8} ({:>7}, {:>7}) {:>18} {:>18}\n",
      report.threads, "tokens", "normal", "source", "transfer", "mapping", "re-read", "with source",
      "without source");
  bool joined = false;
  for (const LengthReport& length : report.lengths) {
    const TransferTimes& times = length.times;
    joined = joined || length.joined;
    text += fmt::format(
        "{:>9} {:>9} {:>9} + {:>8} ({:>7}, {:>7}) {:>18} {:>18}\n",
        fmt::format("{}{}", length.tokens, length.joined ? "*" : ""), seconds_text(times.normal),
        seconds_text(times.source), seconds_text(times.transfer()), seconds_text(times.projection),
        seconds_text(times.reread),
        speed_text(length.speedup_with_source(), length.work.bound_with_source()),
        speed_text(length.speedup_without_source(), length.work.bound_without_source()));
  }
  if (joined) text += "  * no text is as long: timed only, on several texts after one another\n";
  return text;
}

struct Mark {
  TransferArm arm;
  char letter;
};
// The last ones cover those before them.
constexpr std::array kMarks = {Mark{kNone, 'n'},      Mark{kSource, 'S'}, Mark{kTextOnly, 'x'},
                               Mark{kOtherText, 'o'}, Mark{kSelf, 's'},   Mark{kTransferred, 't'}};

size_t column(double share) {
  return static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * (kPlotWidth - 1)));
}

std::string nll_plot(const std::vector<LengthReport>& lengths) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const LengthReport& length : lengths)
    for (const MeanValue& mean : length.all.nll) {
      if (!std::isfinite(mean.value)) continue;
      low = std::min(low, mean.value);
      high = std::max(high, mean.value);
    }
  if (low > high) return {};
  std::string text =
      "s self  t transferred  o other text  x text only  n no context  S source (nats)\n";
  for (const LengthReport& length : lengths) {
    if (length.all.n == 0) continue;
    std::string row(kPlotWidth, '.');
    for (const Mark& mark : kMarks)
      if (const double value = length.all.nll_of(mark.arm).value; std::isfinite(value))
        row[column(high > low ? (value - low) / (high - low) : 0)] = mark.letter;
    text += fmt::format("{:>9} |{}|\n", length.tokens, row);
  }
  return text + fmt::format("{:>9}  {:<{}.2f}{:>{}.2f}\n", "", low, kPlotWidth / 2, high,
                            kPlotWidth - kPlotWidth / 2);
}

std::string speed_plot(const std::vector<LengthReport>& lengths) {
  double most = 0;
  for (const LengthReport& length : lengths)
    if (std::isfinite(length.speedup_without_source()))
      most = std::max(most, length.speedup_without_source());
  if (most <= 0) return {};
  std::string text = "speed-up: # with the source's reading, = without it, | as fast as reading\n";
  for (const LengthReport& length : lengths) {
    if (!std::isfinite(length.speedup_without_source())) continue;
    std::string row(kPlotWidth, ' ');
    const auto fill = [&](double speedup, char letter) {
      std::fill_n(row.begin(), static_cast<std::ptrdiff_t>(column(speedup / most)) + 1, letter);
    };
    fill(length.speedup_without_source(), '=');
    fill(length.speedup_with_source(), '#');
    if (most > 1) row[column(1 / most)] = '|';
    text += fmt::format("{:>9} |{}| {:.1f} x, {:.1f} x\n", length.tokens, row,
                        length.speedup_with_source(), length.speedup_without_source());
  }
  return text;
}

}  // namespace

std::string transfer_plot(const std::vector<LengthReport>& lengths) {
  const std::string nll = nll_plot(lengths);
  const std::string speed = speed_plot(lengths);
  return fmt::format("{}{}{}", nll, nll.empty() || speed.empty() ? "" : "\n", speed);
}

std::string transfer_text(const TransferReport& report) {
  std::string text = fmt::format(
      "{} reads, {} goes on; {}; the first {} and last {} tokens of a context are read again\n",
      report.source, report.target,
      report.projector.empty() ? "rows as they are" : fmt::format("projector {}", report.projector),
      report.sink, report.reread);
  text += fmt::format("{} texts, seed {}, {:.0f} s\n", report.texts, report.seed, report.seconds);
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  text += fmt::format("\n{}\n{}\n", quality_table(report), time_table(report));
  if (const std::string plot = transfer_plot(report.lengths); !plot.empty())
    text += fmt::format("{}\n", plot);
  return fmt::format("{}{}\n", text, transfer_verdict(report));
}

}  // namespace suture
