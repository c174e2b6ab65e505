// engine_bench: prefill, decode, long history and batches of one model, beside the machine's
// limits.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "actors/process_memory.h"
#include "bench/engine/contention.h"
#include "bench/engine/cores.h"
#include "bench/engine/engine_report.h"
#include "bench/engine/onednn_products.h"
#include "launcher/bench/machine_limits.h"
#include "launcher/bench/timed_engine.h"
#include "launcher/command.h"
#include "launcher/download.h"
#include "launcher/system_info.h"
#include "models/checkpoint.h"

namespace suture {
namespace {

constexpr int64_t kShortHistory = 512;  // tokens

struct Options {
  std::string model;
  int threads = allowed_cores();
  std::vector<int64_t> prompts = {64, 512, 2048};
  int64_t generated = 48;
  int64_t history = 8192;
  std::vector<int64_t> batch = {1, 2, 4, 8};
  int64_t rounds = 5;
  bool contend = false;
  bool json = false;
};

void progress(const std::string& text) { fmt::print(stderr, "{}\n", text); }

Estimate rates(double amount, const std::vector<double>& seconds) {
  std::vector<double> values;
  values.reserve(seconds.size());
  for (const double s : seconds) values.push_back(amount / s);
  return estimate(std::move(values));
}

Estimate scaled(const Estimate& e, double factor) {
  return {e.median * factor, e.low * factor, e.high * factor, e.count};
}

class Measurement {
 public:
  Measurement(const Options& options, TimedEngine& engine, MachineLimits& limits)
      : options_(options), engine_(engine), limits_(limits) {}

  Result<PrefillFigures> prefill(int64_t n_tokens) {
    progress(fmt::format("prefill {}", n_tokens));
    std::vector<double> seconds;
    for (int64_t i = 0; i < options_.rounds; ++i) {
      look_at_limits();
      SUTURE_ASSIGN_OR_RETURN(seconds.emplace_back(), engine_.prefill(n_tokens));
    }
    PrefillFigures figures = {.tokens = n_tokens,
                              .tok_s = rates(static_cast<double>(n_tokens), seconds)};
    figures.flop_s = rates(engine_.work().prefill_flop(n_tokens), seconds);
    figures.onednn_flop_s =
        onednn_flop_per_second(engine_.model().weights(), n_tokens, options_.threads);
    return figures;
  }

  Result<DecodeFigures> decode(int64_t history) {
    progress(fmt::format("decode after {}", history));
    std::vector<double> seconds;
    SUTURE_RETURN_IF_ERROR(engine_.set_history(history));
    for (int64_t i = 0; i < options_.rounds; ++i) {
      look_at_limits();
      SUTURE_ASSIGN_OR_RETURN(seconds.emplace_back(), engine_.decode(history, options_.generated));
    }
    DecodeFigures figures = {.history = history, .tok_s = rates(generated(), seconds)};
    figures.bytes_s =
        scaled(figures.tok_s, engine_.work().decode_bytes(history, options_.generated));
    return figures;
  }

  // What a token would not need if there were no history.
  Result<Estimate> share_of_history(int64_t history) {
    std::vector<double> shares;
    for (int64_t i = 0; i < options_.rounds; ++i) {
      SUTURE_ASSIGN_OR_RETURN(const double with, engine_.decode(history, options_.generated));
      SUTURE_ASSIGN_OR_RETURN(const double without, engine_.decode_batch(1, 1, options_.generated));
      shares.push_back(1 - without / with);
    }
    return estimate(std::move(shares));
  }

  Result<std::vector<BatchFigures>> batches() {
    std::vector<BatchFigures> all;
    for (const int64_t n : options_.batch) {
      progress(fmt::format("{} sequences", n));
      std::vector<double> seconds;
      std::vector<double> speedups;
      for (int64_t i = 0; i < options_.rounds; ++i) {
        SUTURE_ASSIGN_OR_RETURN(const double one,
                                engine_.decode_batch(1, kShortHistory, options_.generated));
        SUTURE_ASSIGN_OR_RETURN(const double together,
                                engine_.decode_batch(n, kShortHistory, options_.generated));
        seconds.push_back(together);
        speedups.push_back(static_cast<double>(n) * one / together);
      }
      all.push_back(
          {n, rates(static_cast<double>(n) * generated(), seconds), estimate(std::move(speedups))});
    }
    return all;
  }

 private:
  double generated() const { return static_cast<double>(options_.generated); }

  void look_at_limits() {
    limits_.measure_peak();
    limits_.measure_read();
  }

  const Options& options_;
  TimedEngine& engine_;
  MachineLimits& limits_;
};

Result<EngineReport> measure(const Options& options, const std::filesystem::path& path,
                             int64_t max_tokens) {
  const auto room_for = [&](int64_t tokens) { return tokens <= max_tokens; };
  const int64_t history = room_for(options.history + options.generated) ? options.history : 0;
  int64_t capacity = kShortHistory + options.generated;
  for (const int64_t n : options.prompts)
    if (room_for(n)) capacity = std::max(capacity, n);
  if (history > 0) capacity = std::max(capacity, history + options.generated);

  progress("loading");
  SUTURE_ASSIGN_OR_RETURN(auto engine, TimedEngine::load(path, options.threads, capacity));
  SUTURE_RETURN_IF_ERROR(engine.decode(kShortHistory, 1));
  EngineReport report;
  report.model = options.model;
  report.threads = options.threads;
  report.target = engine.target();
  report.load_seconds = engine.load_seconds();
  report.resident_bytes = resident_bytes();

  SUTURE_ASSIGN_OR_RETURN(const Isa isa, isa_from_environment());
  SUTURE_ASSIGN_OR_RETURN(auto limits, MachineLimits::create(options.threads, isa));
  Measurement measurement(options, engine, limits);
  for (const int64_t n : options.prompts) {
    if (!room_for(n)) continue;
    SUTURE_ASSIGN_OR_RETURN(report.prefill.emplace_back(), measurement.prefill(n));
  }
  SUTURE_ASSIGN_OR_RETURN(report.decode, measurement.decode(kShortHistory));
  SUTURE_ASSIGN_OR_RETURN(report.batch, measurement.batches());
  if (history > 0) {
    SUTURE_ASSIGN_OR_RETURN(report.long_decode, measurement.decode(history));
    SUTURE_ASSIGN_OR_RETURN(report.attention_share, measurement.share_of_history(history));
  }
  report.limit_bytes_s = limits.read_bytes_per_second();
  report.limit_flop_s = limits.peak_flop_per_second();
  report.limit_instruction = limits.peak().instruction;
  return report;
}

// Two engines on all cores; two on one core, with a thread each and with more threads than that.
Result<std::vector<ContentionFigures>> contend(const Options& options,
                                               const std::filesystem::path& path) {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "engine_runner";
  const RunnerTask task = {.history = kShortHistory, .generated_tokens = options.generated};
  std::vector<ContentionFigures> all;
  for (const auto& [threads, n_cores] : {std::pair{options.threads, options.threads},
                                         std::pair{1, 1}, std::pair{options.threads, 1}}) {
    progress(fmt::format("two engines of {} threads on {} cores", threads, n_cores));
    SUTURE_ASSIGN_OR_RETURN(const auto cores, first_cores(n_cores));
    const RunnerCommand command = {program, path, threads, kShortHistory + options.generated,
                                   cores};
    SUTURE_ASSIGN_OR_RETURN(all.emplace_back(), measure_contention(command, task, options.rounds));
  }
  return all;
}

Result<EngineReport> run(const Options& options) {
  SUTURE_ASSIGN_OR_RETURN(const auto path, resolve_model(options.model));
  SUTURE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(path));
  const int64_t max_tokens = checkpoint->config().max_positions;
  SUTURE_ASSIGN_OR_RETURN(EngineReport report, measure(options, path, max_tokens));
  if (options.contend) {
    SUTURE_ASSIGN_OR_RETURN(report.contention, contend(options, path));
  }
  return report;
}

int main_with(const Options& options) {
  const auto report = run(options);
  if (!report) {
    print_failure(report.error(), options.json);
    return kExitFailed;
  }
  if (options.json)
    print_json(to_json(*report));
  else
    fmt::print("{}", report_table(*report));
  return kExitOk;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("model", options.model,
                 "Name from `suture models list`, .gguf file or checkpoint folder")
      ->required();
  app.add_option("--threads", options.threads, "Threads; by default one for each core")
      ->check(CLI::Range(1, allowed_cores()));
  app.add_option("--prefill", options.prompts, "Lengths of prompts, tokens")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--generate", options.generated, "Tokens to generate in each round")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--history", options.history,
                 "Tokens of a long history, where the model can hold them; 0 = leave it out")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "Sequences that are decoded together")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Measurements of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--contend", options.contend,
               "Also two engines at once: on as many cores as threads, and on one");
  app.add_flag("--json", options.json, "One JSON value on standard output");
}

}  // namespace
}  // namespace suture

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a runner that has ended is an error value
  suture::Options options;
  CLI::App app("One model's engine beside the limits of the machine");
  suture::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  return suture::main_with(options);
}
