#include "bench/torture/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace suture::torture {
namespace {

// Nearest rank; 0 of nothing.
double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto rank =
      static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
  return values[std::max<size_t>(rank, 1) - 1];
}

void add_times(nlohmann::json& json, const std::string& name, const std::vector<double>& ms) {
  json[name + "_p50"] = percentile(ms, 50);
  json[name + "_p99"] = percentile(ms, 99);
  json[name + "_max"] = percentile(ms, 100);
}

std::string times_line(const std::string& name, const std::vector<double>& ms) {
  return fmt::format("  {:<34} {:>8.2f} {:>8.2f} {:>8.2f}  {:>6} times\n", name, percentile(ms, 50),
                     percentile(ms, 99), percentile(ms, 100), ms.size());
}

}  // namespace

void Report::take_counts(const CountsData& counts) {
  wrong_bytes = counts.wrong_bytes;
  strange_errors = counts.strange_errors;
  hangs += static_cast<int64_t>(counts.hangs);
  streams = counts.streams;
  forks = counts.forks;
  fills = counts.fills;
  commits = counts.commits;
  attaches = counts.attaches;
  rows = counts.rows;
  tokens = counts.tokens;
  stale_tries = counts.stale_tries;
  for (size_t i = 0; i < errors.size(); ++i) errors[i] = counts.errors[i];
}

bool Report::sound() const {
  return wrong_bytes == 0 && leaked_blocks == 0 && hangs == 0 && strange_errors == 0 &&
         unexpected_ends == 0 && after.parent_fds == before.parent_fds &&
         after.mappings <= before.mappings;
}

std::string Report::json() const {
  nlohmann::json json = {
      {"rounds", rounds},
      {"kills", kills},
      {"stops", stops},
      {"wrong_bytes", wrong_bytes},
      {"leaked_blocks", leaked_blocks},
      {"hangs", hangs},
      {"seed", seed},
      {"schedule", fmt::format("{:016x}", schedule)},
      {"seconds", seconds},
      {"early_kills", early_kills},
      {"pauses", pauses},
      {"pauses_taken_for_stops", pauses_taken_for_stops},
      {"owner_faults", owner_faults},
      {"reader_faults", reader_faults},
      {"unexpected_ends", unexpected_ends},
      {"strange_errors", strange_errors},
      {"look_interval_ms", look_interval_ms},
      {"streams", streams},
      {"forks", forks},
      {"fills", fills},
      {"commits", commits},
      {"attaches", attaches},
      {"stale_tries", stale_tries},
      {"rows_checked", rows},
      {"tokens_checked", tokens},
      {"parent_fds_before", before.parent_fds},
      {"parent_fds_after", after.parent_fds},
      {"mappings_before", before.mappings},
      {"mappings_after", after.mappings},
      {"pss_kib_before", before.pss_kib},
      {"pss_kib_after", after.pss_kib},
  };
  add_times(json, "detect_ms", detect_ms);
  add_times(json, "stop_detect_ms", stop_detect_ms);
  add_times(json, "owner_informed_ms", owner_informed_ms);
  add_times(json, "recovered_ms", recovered_ms);
  for (size_t i = 0; i < errors.size(); ++i) {
    const std::string name(error_code_name(static_cast<ErrorCode>(i)));
    if (errors[i] != 0) json["errors"][name] = errors[i];
  }
  return json.dump();
}

std::string Report::table() const {
  std::string text = fmt::format(
      "{} rounds of seed {} in {:.1f} s\n\n"
      "faults    {} SIGKILL, {} SIGKILL of a process that starts, {} SIGSTOP, {} SIGSTOP and "
      "SIGCONT\n"
      "          {} of owners, {} of readers\n"
      "work      {} streams, {} forks, {} times filled to the last block\n"
      "checked   {} attaches ({} tries with old references), {} rows, {} tokens\n\n",
      rounds, seed, seconds, kills, early_kills, stops, pauses, owner_faults, reader_faults,
      streams, forks, fills, attaches, stale_tries, rows, tokens);
  text += fmt::format("  {:<34} {:>8} {:>8} {:>8}\n", "ms", "p50", "p99", "max");
  text += times_line("SIGKILL to the broker's report", detect_ms);
  text += times_line("... to the last reader that knew", owner_informed_ms);
  text += times_line(fmt::format("SIGSTOP, a look every {} ms", look_interval_ms), stop_detect_ms);
  text += times_line("until the successor is in use", recovered_ms);
  text += fmt::format("\nmemory    {} -> {} descriptors, {} -> {} mappings, {} -> {} KiB\n",
                      before.parent_fds, after.parent_fds, before.mappings, after.mappings,
                      before.pss_kib, after.pss_kib);
  text += fmt::format(
      "\n{}: {} wrong bytes, {} leaked blocks, {} hangs, {} strange errors, {} unexpected ends\n",
      sound() ? "sound" : "NOT SOUND", wrong_bytes, leaked_blocks, hangs, strange_errors,
      unexpected_ends);
  return text;
}

}  // namespace suture::torture
