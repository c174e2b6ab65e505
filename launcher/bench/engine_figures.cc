#include "launcher/bench/engine_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace suture {
namespace {

constexpr double kGiga = 1e9;

// Each value times `factor`.
Estimate scaled(const Estimate& e, double factor) {
  return {e.median * factor, e.low * factor, e.high * factor, e.count};
}

Estimate rates(double amount, std::vector<double> seconds) {
  for (double& s : seconds) s = amount / s;
  return estimate(std::move(seconds));
}

nlohmann::json interval(const Estimate& e) { return {e.low, e.high}; }

std::string rate_row(std::string_view name, const Estimate& tok_s, const Estimate& used,
                     double limit, std::string_view unit) {
  constexpr int kBarWidth = 24;
  const double share = used.median / limit;
  return fmt::format(
      "{:<14}{:>9.1f}  {:>8.1f} to {:<8.1f}  {:>8.1f} of {:<7.1f} {:<8} {} {:3.0f} %\n", name,
      tok_s.median, tok_s.low, tok_s.high, used.median / kGiga, limit / kGiga, unit,
      share_bar(share, kBarWidth), 100 * share);
}

}  // namespace

Result<EngineFigures> measure_engine(
    TimedEngine& engine, MachineLimits& limits, const EngineTask& task,
    const std::function<void(std::string_view what, int64_t done, int64_t total)>& progress) {
  constexpr int kLimitPasses = 3;  // before each measurement of the engine
  const int64_t steps = 2 * task.rounds;
  std::vector<double> prefill_seconds;
  std::vector<double> decode_seconds;
  for (int64_t round = 0; round < task.rounds; ++round) {
    progress("prefill", 2 * round, steps);
    for (int i = 0; i < kLimitPasses; ++i) limits.measure_peak();
    SUTURE_ASSIGN_OR_RETURN(double seconds, engine.prefill(task.prompt_tokens));
    prefill_seconds.push_back(seconds);
    progress("decode", 2 * round + 1, steps);
    for (int i = 0; i < kLimitPasses; ++i) limits.measure_read();
    SUTURE_ASSIGN_OR_RETURN(seconds, engine.decode(task.prompt_tokens, task.generated_tokens));
    decode_seconds.push_back(seconds);
  }
  progress("done", steps, steps);

  const auto prompt = static_cast<double>(task.prompt_tokens);
  const auto generated = static_cast<double>(task.generated_tokens);
  const EngineWork& work = engine.work();
  EngineFigures figures;
  figures.threads = engine.model().stream().workers();
  figures.target = engine.target();
  figures.task = task;
  figures.prefill_tok_s = rates(prompt, prefill_seconds);
  figures.decode_tok_s = rates(generated, decode_seconds);
  figures.read_bytes_s =
      scaled(figures.decode_tok_s, work.decode_bytes(task.prompt_tokens, task.generated_tokens));
  figures.flop_s = scaled(figures.prefill_tok_s, work.prefill_flop(task.prompt_tokens) / prompt);
  figures.limit_bytes_s = limits.read_bytes_per_second();
  figures.limit_flop_s = limits.peak_flop_per_second();
  figures.limit_instruction = limits.peak().instruction;
  figures.load_seconds = engine.load_seconds();
  return figures;
}

nlohmann::json to_json(const EngineFigures& f) {
  return {
      {"model", f.model},
      {"threads", f.threads},
      {"target", f.target},
      {"n", f.prefill_tok_s.count},
      {"prompt_tokens", f.task.prompt_tokens},
      {"generated_tokens", f.task.generated_tokens},
      {"prefill_tok_s", f.prefill_tok_s.median},
      {"decode_tok_s", f.decode_tok_s.median},
      {"read_gb_s", f.read_bytes_s.median / kGiga},
      {"limit_gb_s", f.limit_bytes_s / kGiga},
      {"gflop_s", f.flop_s.median / kGiga},
      {"limit_gflop_s", f.limit_flop_s / kGiga},
      {"limit_instruction", f.limit_instruction},
      {"share_of_read_limit", f.read_bytes_s.median / f.limit_bytes_s},
      {"share_of_flop_limit", f.flop_s.median / f.limit_flop_s},
      {"intervals",
       {{"prefill_tok_s", interval(f.prefill_tok_s)}, {"decode_tok_s", interval(f.decode_tok_s)}}},
      {"rss_bytes", f.resident_bytes},
      {"load_s", f.load_seconds}};
}

std::string engine_table(const EngineFigures& f) {
  std::string table =
      fmt::format("{}, {} {}, {}; medians of {} rounds with interval\n", f.model, f.threads,
                  f.threads == 1 ? "thread" : "threads", f.target, f.prefill_tok_s.count);
  table += fmt::format("{:<14}{:>9}  {:>20}  {}\n", "", "tok/s", "interval",
                       "used of what the machine allows");
  table += rate_row(fmt::format("prefill {}", f.task.prompt_tokens), f.prefill_tok_s, f.flop_s,
                    f.limit_flop_s, "GFLOP/s");
  table += rate_row(fmt::format("decode {}", f.task.generated_tokens), f.decode_tok_s,
                    f.read_bytes_s, f.limit_bytes_s, "GB/s");
  table += fmt::format("limits: a loop of {} in registers; a plain loop that reads memory\n",
                       f.limit_instruction);
  table += fmt::format("ready after {:.2f} s, {:.0f} MB resident\n", f.load_seconds,
                       static_cast<double>(f.resident_bytes) / 1e6);
  return table;
}

std::string share_bar(double share, int width) {
  const int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width));
  std::string bar(static_cast<size_t>(filled), '#');
  bar.resize(static_cast<size_t>(width), '-');
  return "[" + bar + "]";
}

}  // namespace suture
