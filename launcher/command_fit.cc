#include "launcher/command_fit.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/trace_log.h"
#include "fusion/dense_algebra.h"
#include "launcher/download.h"
#include "launcher/fit/projector_report.h"
#include "launcher/fit/run_fit.h"
#include "launcher/interrupt.h"
#include "launcher/progress.h"
#include "launcher/system_info.h"
#include "models/unicode.h"

namespace suture {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

struct FitFlags {
  std::string source;
  std::string target;
  std::vector<std::string> texts;
  std::string out;
  double memory_gib = 0;  // 0 = what is free
  int64_t tokens = 512;
  int64_t max_texts = 600;
  std::string window = "auto";
  std::vector<std::string> ridges = {"auto"};
  double held_out = 0.1;
  std::string held_out_file;
  int threads = 0;
  bool without_own_layer = false;
  bool resume = false;
};

// The calibration texts of the repository that the program was built in or is run in.
Result<std::vector<std::filesystem::path>> calibration_texts() {
  constexpr std::string_view kNames[] = {"calibration.jsonl", "calibration-docs.jsonl",
                                         "calibration-prose.jsonl"};
  const std::filesystem::path evals = "bench/evals";
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::current_path(ignored);
  for (const auto& start : {folder, std::filesystem::read_symlink("/proc/self/exe", ignored)})
    for (folder = start; folder.has_relative_path(); folder = folder.parent_path())
      if (std::filesystem::exists(folder / evals / kNames[0], ignored)) {
        std::vector<std::filesystem::path> files;
        for (const std::string_view name : kNames) files.push_back(folder / evals / name);
        return files;
      }
  return fail(ErrorCode::kNotFound, "there is no bench/evals/calibration.jsonl near the program",
              "--text", "name the texts to fit to");
}

Result<FitModel> model_of(const std::string& text) {
  FitModel model;
  SUTURE_ASSIGN_OR_RETURN(model.path, resolve_model(text));
  const std::filesystem::path path = std::filesystem::path(text).lexically_normal();
  model.name = printable(path.has_filename() ? path.filename().string()
                                             : path.parent_path().filename().string());
  return model;
}

// "auto", "all", or a number of layers.
Result<std::vector<int32_t>> parse_window(const std::string& text) {
  if (text == "auto") return std::vector<int32_t>();
  if (text == "all") return std::vector<int32_t>{0};
  int32_t layers = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layers);
  if (error != std::errc() || end != text.data() + text.size() || layers < 1)
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}'", text), "--window",
                "auto, all, or a number of source layers");
  return std::vector{layers};
}

Result<std::vector<double>> parse_ridges(const std::vector<std::string>& texts) {
  std::vector<double> ridges;
  if (texts == std::vector<std::string>{"auto"}) return ridges;
  for (const std::string& text : texts) {
    char* end = nullptr;
    const double ridge = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0' || !(ridge >= 0) || ridge > 1e6)
      return fail(ErrorCode::kInvalidArgument, fmt::format("'{}'", text), "--ridge",
                  "auto, or numbers from 0 on, relative to how much each column varies");
    ridges.push_back(ridge);
  }
  return ridges;
}

Result<FitOptions> options_of(const FitFlags& flags) {
  FitOptions options;
  SUTURE_ASSIGN_OR_RETURN(options.windows, parse_window(flags.window));
  SUTURE_ASSIGN_OR_RETURN(options.ridges, parse_ridges(flags.ridges));
  SUTURE_ASSIGN_OR_RETURN(options.source, model_of(flags.source));
  SUTURE_ASSIGN_OR_RETURN(options.target, model_of(flags.target));
  options.texts.assign(flags.texts.begin(), flags.texts.end());
  if (options.texts.empty()) {
    SUTURE_ASSIGN_OR_RETURN(options.texts, calibration_texts());
  }
  options.out = flags.out;
  options.memory_bytes = flags.memory_gib > 0 ? static_cast<uint64_t>(flags.memory_gib * kGib)
                                              : available_memory_bytes();
  options.own_first_layer = !flags.without_own_layer;
  options.tokens = flags.tokens;
  options.max_texts = flags.max_texts;
  options.held_out_share = flags.held_out;
  options.held_out = flags.held_out_file;
  options.threads = flags.threads > 0 ? flags.threads : allowed_cores();
  options.resume = flags.resume;
  return options;
}

void print_plan(const FitPlan& plan, int64_t texts) {
  const auto megabytes = [](uint64_t bytes) { return bytes / 1'000'000; };
  const FitMemory& memory = plan.memory;
  fmt::print(
      stderr,
      "{} texts, windows of up to {} source layers\n"
      "memory (MB): {} models, {} moments, {} rows, {} solving; {} at most, {} may be used\n",
      texts, plan.shape.widest, megabytes(memory.models_bytes), megabytes(memory.moments_bytes),
      megabytes(memory.rows_bytes), megabytes(memory.solving_bytes), megabytes(memory.most_bytes()),
      megabytes(memory.limit_bytes));
}

// A bar for each part of the work, with the time that is left of it.
class FitProgress {
 public:
  void update(std::string_view what, int64_t done, int64_t total) {
    if (what != what_) {
      line_.reset();
      line_.emplace("fit");
      what_ = what;
      begun_ns_ = monotonic_ns();
      first_ = done;
      return;
    }
    const double share = static_cast<double>(total - done) / static_cast<double>(done - first_);
    // As wide as it ever gets, so that nothing of it is left behind on a terminal.
    line_->update(
        fmt::format("{:<40}", fmt::format("{} {} of {}, {} left", what, done, total,
                                          duration_text(seconds_since(begun_ns_) * share))),
        done, total);
  }

 private:
  std::optional<StepProgress> line_;
  std::string what_;
  int64_t begun_ns_ = 0;
  int64_t first_ = 0;
};

nlohmann::json report_json(const FitReport& report, const std::string& out) {
  nlohmann::json json = projector_json(report.projector);
  const GatheringTimes& times = report.times;
  json["file"] = out;
  for (const FitTrial& trial : report.trials.means())
    json["tried"].push_back({{"window", trial.window},
                             {"ridge", trial.ridge},
                             {"key_r2", trial.key_r2},
                             {"value_r2", trial.value_r2}});
  json["fitted"] = {{"key", {{"r2", report.fitted.key_r2}, {"mse", report.fitted.key_mse}}},
                    {"value", {{"r2", report.fitted.value_r2}, {"mse", report.fitted.value_mse}}}};
  json["memory_bytes"] = report.plan.memory.most_bytes();
  json["reading_s"] = times.wall_seconds;
  json["solving_s"] = report.solve_seconds;
  json["models_cpu_s"] = times.models_cpu_seconds;
  json["gathering_cpu_s"] = times.gather_cpu_seconds;
  json["source_tokens"] = times.source_tokens;
  json["target_tokens"] = times.target_tokens;
  return json;
}

void print_report(const FitReport& report, const std::string& out) {
  const GatheringTimes& times = report.times;
  fmt::print("{}", projector_report(report.projector));
  for (const FitTrial& trial : report.trials.best_by_window())
    fmt::print("tried      windows of {:>2} layers: R2 of K {:.3f}, of V {:.3f} (ridge {:.0e})\n",
               trial.window, trial.key_r2, trial.value_r2, trial.ridge);
  fmt::print(
      "fitted     R2 of K {:.3f}, of V {:.3f} on the texts that it was fitted to: more text\n"
      "           helps as far as that is above what is reached on others\n",
      report.fitted.key_r2, report.fitted.value_r2);
  fmt::print("time       {} to read {} + {} tokens and gather, {} to solve\n",
             duration_text(times.wall_seconds), times.source_tokens, times.target_tokens,
             duration_text(report.solve_seconds));
  fmt::print("           gathering took {:.0f} % of the models' own CPU time on top\n",
             100 * times.gather_cpu_seconds / times.models_cpu_seconds);
  fmt::print("written    {}\n", out);
}

// The words of this process's command line.
std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

// Begins this process anew where it then computes faster; nothing has been done yet.
void restart_with_faster_kernels() {
  const char* kernels = faster_kernels();
  if (kernels == nullptr) return;
  ::setenv("OPENBLAS_CORETYPE", kernels, 1);
  std::vector<std::string> words = own_words();
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv("/proc/self/exe", argv.data());
  spdlog::warn(
      "fit: OpenBLAS has no fast kernels for this processor by itself; OPENBLAS_CORETYPE={}"
      " gives it some",
      kernels);
}

CommandResult run_fit_command(const FitFlags& flags, bool json) {
  restart_with_faster_kernels();
  SUTURE_ASSIGN_OR_RETURN(const FitOptions options, options_of(flags));
  std::atomic<bool> cancelled = false;
  const InterruptGuard guard(cancelled);
  FitProgress progress;
  const FitSurroundings surroundings{
      .on_plan = print_plan,
      .on_message = [](const std::string& line) { fmt::print(stderr, "{}\n", line); },
      .on_progress = [&progress](std::string_view what, int64_t done,
                                 int64_t total) { progress.update(what, done, total); },
      .cancelled = cancelled};
  SUTURE_ASSIGN_OR_RETURN(const FitReport report, run_fit(options, surroundings));
  if (json)
    print_json(report_json(report, flags.out));
  else
    print_report(report, flags.out);
  return kExitOk;
}

}  // namespace

void add_fit_command(CLI::App& app, CommandContext& context) {
  auto flags = std::make_shared<FitFlags>();
  CLI::App* fit = app.add_subcommand(
      "fit", "A projector: what one model has read, another goes on with (docs/projectors.md)");
  fit->add_option("--source", flags->source, "Model that reads: a name, .gguf file or folder")
      ->required();
  fit->add_option("--target", flags->target, "Model that goes on with it")->required();
  fit->add_option("--out", flags->out, "File to write, .suture")->required();
  fit->add_option("--text", flags->texts,
                  "Texts, or .jsonl files with a `text` a line; default is the repository's "
                  "calibration set");
  fit->add_option("--memory", flags->memory_gib, "GiB that may be used; default is what is free")
      ->check(CLI::Range(0.0, 1e6));
  fit->add_option("--tokens-per-text", flags->tokens, "Longer texts are cut")
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 16));
  fit->add_option("--max-texts", flags->max_texts,
                  "Texts of that length at most, of all kinds alike; 0 is all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30));
  fit->add_option("--window", flags->window,
                  "Source layers that a target layer is made of: auto, all or a number");
  fit->add_option("--ridge", flags->ridges, "auto, or strengths to try")->delimiter(',');
  fit->add_flag("--no-own-layer", flags->without_own_layer,
                "Maps from the source's layers alone, without the target's first one");
  fit->add_option("--held-out", flags->held_out, "Share of the texts that only judge")
      ->check(CLI::Range(0.01, 0.9));
  fit->add_option("--write-held-out", flags->held_out_file,
                  "Also write the texts that only judge, as .jsonl for `suture transfer`");
  fit->add_option("--threads", flags->threads, "Threads; 0 = one per core")
      ->check(CLI::Range(0, 1024));
  fit->add_flag("--resume", flags->resume, "Go on with an interrupted fit");
  context.set_action(fit, [flags, &context] { return run_fit_command(*flags, context.json); });
}

}  // namespace suture
