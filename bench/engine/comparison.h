// Two engines that do the same in turns: how much faster the one is.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/engine/runner_process.h"
#include "launcher/bench/estimate.h"

namespace suture {

struct Pair {
  RunnerSeconds ours;
  RunnerSeconds peer;
};

struct Comparison {
  std::string model;
  int threads = 1;
  std::string task;  // "prefill 512", "decode 48 after 512", "start"
  Estimate ours;     // tokens a second; of "start" seconds
  Estimate peer;
  Estimate ratio;  // above 1: ours is faster; of the two sides of each pair
  // The same of processor time: with one thread each, what `ratio` would be if nobody disturbed.
  // The threads of several also wait for each other, spinning or asleep.
  double cpu_ratio = 0;
  // That the peer's threads had, the median; they never sleep while they work.
  double peer_cores = 0;

  // Whether others took so much of the peer's cores that its figures are worth nothing.
  bool disturbed() const;
};

// `tokens` are those that are timed.
Comparison compare(std::span<const Pair> pairs, int64_t tokens);
// Process start to first token.
Comparison compare_starts(std::span<const Pair> pairs);

// `n_pairs` times each; first ours, then the peer first, and so on.
Result<std::vector<Pair>> run_pairs(RunnerProcess& ours, RunnerProcess& peer,
                                    const RunnerTask& task, int n_pairs);
Result<std::vector<Pair>> start_pairs(const RunnerCommand& ours, const RunnerCommand& peer,
                                      int n_pairs);

std::string comparison_table(std::span<const Comparison> comparisons);
nlohmann::json to_json(const Comparison& comparison);

}  // namespace suture
