#include "launcher/command_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "actors/launch_preparation.h"
#include "actors/trace_log.h"
#include "fusion/projector_file.h"
#include "launcher/interrupt.h"
#include "launcher/launch_start.h"
#include "launcher/progress.h"
#include "launcher/system_info.h"
#include "launcher/transfer/transfer_preparation.h"

namespace suture {
namespace {

constexpr int64_t kMostTokens = 1 << 20;

struct TransferFlags : TransferOptions {
  std::string report_file;
};

Result<TransferSubject> start_subject(const LaunchSpec& spec, bool force,
                                      const std::atomic<bool>& cancelled) {
  SUTURE_ASSIGN_OR_RETURN(StartedLaunch started, start_launch(spec, {.force = force}));
  const std::shared_ptr<Launch> launch = std::move(started.launch);
  return TransferSubject{
      .score = [launch, &cancelled](
                   const TokenScoreOptions& options) { return launch->score(options, cancelled); },
      .keep = launch};
}

void measure(const TransferFlags& flags, TransferBenchmark& benchmark, const TransferSetup& setup) {
  std::atomic<bool> cancelled = false;
  const InterruptGuard guard(cancelled);
  StepProgress progress("transfer");
  const int64_t begun_ns = monotonic_ns();
  TransferSurroundings surroundings;
  surroundings.start = [&](const LaunchSpec& spec) {
    return start_subject(spec, flags.force, cancelled);
  };
  surroundings.on_progress = [&](std::string_view what, double share) {
    constexpr int64_t kSteps = 1000;
    const double left = seconds_since(begun_ns) * (1 - share) / share;
    progress.update(fmt::format("{} left, {}", duration_text(left), what),
                    static_cast<int64_t>(share * kSteps), kSteps);
  };
  TransferResult result = run_transfer(setup, benchmark.plans, surroundings, cancelled);
  TransferReport& report = benchmark.report;
  report.ended_by = std::move(result.ended_by);
  report.seconds = result.seconds;
  const Projector* projector = benchmark.projector ? &*benchmark.projector : nullptr;
  for (size_t i = 0; i < benchmark.plans.size(); ++i) {
    const LengthPlan& plan = benchmark.plans[i];
    const TransferWork work =
        transfer_work(benchmark.source.config, benchmark.target.config, projector,
                      {.tokens = plan.tokens, .sink = flags.sink, .reread = flags.reread});
    report.lengths.push_back(length_report(plan, result.lengths[i], work, flags.seed));
  }
}

// Whether the report can go there is tried before the work begins.
Status check_writable(const std::string& file) {
  if (file.empty() || std::ofstream(file, std::ios::app)) return {};
  return fail(ErrorCode::kIo, "cannot write the report", file);
}

Status write_report(const std::string& file, const TransferReport& report) {
  if (file.empty()) return {};
  std::ofstream out(file, std::ios::trunc);
  if (std::filesystem::path(file).extension() == ".json")
    out << transfer_json(report).dump() << "\n";
  else
    out << transfer_text(report);
  if (!out.flush()) return fail(ErrorCode::kIo, "cannot write the report", file);
  return {};
}

Status write_evidence(const TransferFlags& flags, TransferBenchmark& benchmark) {
  if (!flags.write_evidence || !unsound(benchmark.report).empty()) return {};
  benchmark.projector->evidence = evidence_of(benchmark.report);
  return write_projector(flags.projector, *benchmark.projector);
}

CommandResult run_transfer_command(const TransferFlags& flags, bool json) {
  SUTURE_ASSIGN_OR_RETURN(TransferBenchmark benchmark, prepare_transfer(flags));
  const TransferSetup setup = transfer_setup(flags, benchmark);
  // What only a launch would find is found before the first one has worked for an hour.
  SUTURE_RETURN_IF_ERROR(prepare_launch(setup.transferring));
  SUTURE_RETURN_IF_ERROR(check_writable(flags.report_file));
  measure(flags, benchmark, setup);
  const TransferReport& report = benchmark.report;
  Status written = write_report(flags.report_file, report);
  if (written) written = write_evidence(flags, benchmark);
  if (json)
    print_json(transfer_json(report));
  else
    fmt::print("{}", transfer_text(report));
  std::fflush(stdout);
  if (report.ended_by) {
    print_failure(*report.ended_by, false);
    return exit_code_for(report.ended_by->code);
  }
  if (!written) print_failure(written.error(), false);
  return written && unsound(report).empty() ? kExitOk : kExitFailed;
}

void add_context_options(CLI::App& transfer, TransferFlags& flags) {
  transfer
      .add_option("--lengths", flags.lengths,
                  "Lengths of contexts in tokens; 128,256,512,1024,2048,4096,8192 as far as the "
                  "models have positions")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{3}, kMostTokens));
  transfer.add_option("--continue", flags.continued, "Tokens after the context, which are scored")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->capture_default_str();
  transfer.add_option("--sink", flags.sink, "First tokens that the target reads itself")
      ->check(CLI::Range(int64_t{0}, kMostTokens))
      ->capture_default_str();
  transfer.add_option("--reread", flags.reread, "Last tokens that the target reads itself")
      ->check(CLI::Range(int64_t{1}, kMostTokens))
      ->capture_default_str();
}

}  // namespace

void add_transfer_command(CLI::App& app, CommandContext& context) {
  auto flags = std::make_shared<TransferFlags>();
  flags->threads = allowed_cores();
  CLI::App* transfer = app.add_subcommand(
      "transfer", "What a context that one model read is worth on another, and how fast that is");
  transfer->add_option("--source", flags->source, "Model that reads")->required();
  transfer->add_option("--target", flags->target, "Model that goes on")->required();
  transfer->add_option("--projector", flags->projector,
                       "File of `suture fit`; none for one and the same model");
  transfer
      ->add_option("--text", flags->texts,
                   "Texts: .txt, or .jsonl with a field \"text\" and perhaps \"kind\"")
      ->required();
  add_context_options(*transfer, *flags);
  transfer->add_option("--limit", flags->limit, "Texts of each length, drawn by the seed; 0 is all")
      ->check(CLI::Range(int64_t{0}, kMostTokens))
      ->capture_default_str();
  transfer->add_option("--seed", flags->seed, "Draws the texts, and which one is whose other text");
  transfer->add_option("--threads", flags->threads, "Threads of each model; one a core by default")
      ->check(CLI::Range(1, allowed_cores()));
  transfer->add_flag("--held-out", flags->held_out,
                     "Leave out texts that the projector was fitted to");
  transfer->add_flag("--write-evidence", flags->write_evidence,
                     "Write what was measured into the projector's file, if it is sound: modes "
                     "project and transfer ask for it");
  transfer->add_option("--out", flags->report_file,
                       "Also write the report to this file, as JSON if it ends in .json");
  transfer->add_flag("--force", flags->force,
                     "Measure a projector that was fitted for other weights, or "
                     "texts that it was fitted to; start although the memory does not suffice");
  context.set_action(transfer,
                     [flags, &context] { return run_transfer_command(*flags, context.json); });
}

}  // namespace suture
