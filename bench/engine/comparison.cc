#include "bench/engine/comparison.h"

#include <fmt/format.h>

#include <utility>

namespace suture {
namespace {

Estimate estimate_of(std::span<const Pair> pairs, const std::function<double(const Pair&)>& value) {
  std::vector<double> values;
  values.reserve(pairs.size());
  for (const Pair& pair : pairs) values.push_back(value(pair));
  return estimate(std::move(values));
}

Estimate ratio_of(std::span<const Pair> pairs) {
  return estimate_of(pairs, [](const Pair& p) { return p.peer.wall / p.ours.wall; });
}

bool is_start(const Comparison& c) { return c.task == "start"; }

// First ours in even pairs, first the peer in odd ones.
template <typename Side>
Result<std::vector<Pair>> in_turns(int n_pairs, Side&& side) {
  std::vector<Pair> pairs(static_cast<size_t>(n_pairs));
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (const bool ours : {i % 2 == 0, i % 2 != 0}) {
      SUTURE_ASSIGN_OR_RETURN(const RunnerSeconds seconds, side(ours));
      (ours ? pairs[i].ours : pairs[i].peer) = seconds;
    }
  }
  return pairs;
}

}  // namespace

bool Comparison::disturbed() const {
  constexpr double kLeast = 0.95;
  return !is_start(*this) && peer_cores < kLeast * threads;
}

Comparison compare(std::span<const Pair> pairs, int64_t tokens) {
  const auto n = static_cast<double>(tokens);
  Comparison c;
  c.ratio = ratio_of(pairs);
  c.cpu_ratio = estimate_of(pairs, [](const Pair& p) { return p.peer.cpu / p.ours.cpu; }).median;
  c.peer_cores = estimate_of(pairs, [](const Pair& p) { return p.peer.cpu / p.peer.wall; }).median;
  c.ours = estimate_of(pairs, [n](const Pair& p) { return n / p.ours.wall; });
  c.peer = estimate_of(pairs, [n](const Pair& p) { return n / p.peer.wall; });
  return c;
}

Comparison compare_starts(std::span<const Pair> pairs) {
  Comparison c;
  c.ratio = ratio_of(pairs);
  c.task = "start";
  c.ours = estimate_of(pairs, [](const Pair& p) { return p.ours.wall; });
  c.peer = estimate_of(pairs, [](const Pair& p) { return p.peer.wall; });
  return c;
}

Result<std::vector<Pair>> run_pairs(RunnerProcess& ours, RunnerProcess& peer,
                                    const RunnerTask& task, int n_pairs) {
  return in_turns(n_pairs, [&](bool is_ours) { return (is_ours ? ours : peer).run(task); });
}

Result<std::vector<Pair>> start_pairs(const RunnerCommand& ours, const RunnerCommand& peer,
                                      int n_pairs) {
  return in_turns(n_pairs, [&](bool is_ours) -> Result<RunnerSeconds> {
    SUTURE_ASSIGN_OR_RETURN(const auto runner, RunnerProcess::start(is_ours ? ours : peer));
    return RunnerSeconds{runner.start_seconds(), 0};
  });
}

std::string comparison_table(std::span<const Comparison> comparisons) {
  std::string table = fmt::format("{:<30}{:>7}  {:<20}{:>10}{:>10}{:>8}  {}\n", "model", "threads",
                                  "task", "ours", "peer", "ratio", "interval");
  for (const Comparison& c : comparisons) {
    const int digits = is_start(c) ? 3 : 1;
    table += fmt::format(
        "{:<30}{:>7}  {:<20}{:>10.{}f}{:>10.{}f}{:>8.2f}  {:.2f} to {:.2f}{}\n", c.model, c.threads,
        c.task, c.ours.median, digits, c.peer.median, digits, c.ratio.median, c.ratio.low,
        c.ratio.high,
        c.disturbed() ? fmt::format("  disturbed: the peer had {:.2f} cores", c.peer_cores) : "");
  }
  return table + "ours, peer: tokens a second (start: seconds); ratio above 1: ours is faster\n";
}

nlohmann::json to_json(const Comparison& c) {
  const char* unit = is_start(c) ? "s" : "tok_s";
  nlohmann::json json = {{"model", c.model},
                         {"threads", c.threads},
                         {"task", c.task},
                         {"n", c.ratio.count},
                         {fmt::format("ours_{}", unit), c.ours.median},
                         {fmt::format("peer_{}", unit), c.peer.median},
                         {"ratio", c.ratio.median},
                         {"ratio_interval", {c.ratio.low, c.ratio.high}},
                         {"disturbed", c.disturbed()}};
  if (!is_start(c)) json["cpu_ratio"] = c.cpu_ratio;
  return json;
}

}  // namespace suture
