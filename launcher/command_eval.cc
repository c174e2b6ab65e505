#include "launcher/command_eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/trace_log.h"
#include "launcher/attention_flags.h"
#include "launcher/eval/arms.h"
#include "launcher/eval/eval_keywords.h"
#include "launcher/eval/eval_report.h"
#include "launcher/eval/run_eval.h"
#include "launcher/eval/sandbox.h"
#include "launcher/interrupt.h"
#include "launcher/launch_start.h"
#include "launcher/progress.h"
#include "launcher/topology.h"

namespace suture {
namespace {

struct EvalFlags {
  std::string topology;
  std::vector<std::string> sets;
  std::vector<std::string> arms = {"all"};
  std::vector<double> gains;
  std::string choice = "both";
  int64_t limit = 0;
  int64_t max_tokens = 0;
  int64_t side_by_side = 0;
  uint64_t seed = 0;
  std::string report_file;
  bool force = false;
  AttentionQuery attention = {.must_occur = false};  // an item may do without a keyword
};

std::vector<Metric> choice_metrics(const std::string& choice) {
  if (choice == "text") return {Metric::kOptionText};
  if (choice == "letter") return {Metric::kOptionLetter};
  return {Metric::kOptionText, Metric::kOptionLetter};
}

Result<std::vector<EvalSet>> load_sets(const std::vector<std::string>& files) {
  std::vector<EvalSet> sets;
  for (const std::string& file : files) {
    SUTURE_ASSIGN_OR_RETURN(sets.emplace_back(), load_eval_set(file));
  }
  return sets;
}

bool holds_programs(const std::vector<EvalSet>& sets) {
  return std::ranges::any_of(sets, [](const EvalSet& set) {
    return std::holds_alternative<CodeItem>(set.items.front().task);
  });
}

Result<EvalOptions> options_of(const EvalFlags& flags, const LaunchSpec& topology) {
  EvalOptions options;
  SUTURE_ASSIGN_OR_RETURN(const auto kinds, parse_arms(flags.arms));
  options.arms = arms_of(topology, kinds, flags.gains);
  if (options.arms.empty())
    return fail(ErrorCode::kInvalidArgument, "the topology has none of these arms", "--arms",
                "a topology with slaves has more of them");
  options.choice = choice_metrics(flags.choice);
  options.max_tokens = flags.max_tokens;
  options.limit = flags.limit;
  options.seed = flags.seed;
  options.attention = flags.attention;
  options.side_by_side = flags.side_by_side > 0 ? flags.side_by_side : topology.max_sequences;
  return options;
}

// A launch for some arms, with the way to ask it.
Result<StartedSubject> start_subject(const LaunchSpec& spec, bool force,
                                     const std::atomic<bool>& cancelled) {
  SUTURE_ASSIGN_OR_RETURN(StartedLaunch started, start_launch(spec, {.force = force}));
  const std::shared_ptr<Launch> launch = std::move(started.launch);
  StartedSubject subject{.subject = {}, .keep = launch};
  subject.subject.ask = [launch, &cancelled](const AskOptions& ask) {
    return launch->ask(
        ask, [](std::string_view) {}, cancelled);
  };
  subject.subject.score = [launch, &cancelled](const ScoreOptions& score) {
    return launch->score(score, cancelled);
  };
  return subject;
}

// Where the report goes is tried before hours are spent on it.
Status check_report_file(const std::string& file) {
  if (file.empty() || std::ofstream(file, std::ios::app)) return {};
  return fail(ErrorCode::kIo, "cannot write the report", file);
}

Status write_report(const std::string& file, const std::string& report) {
  if (file.empty()) return {};
  std::ofstream out(file, std::ios::trunc);
  out << report;
  if (!out.flush()) return fail(ErrorCode::kIo, "cannot write the report", file);
  return {};
}

CommandResult run_eval_command(const EvalFlags& flags, bool json) {
  SUTURE_ASSIGN_OR_RETURN(const auto sets, load_sets(flags.sets));
  auto topology = load_topology(flags.topology);
  if (!topology) return refuse(topology.error());
  SUTURE_RETURN_IF_ERROR(resolve_models(*topology));
  SUTURE_RETURN_IF_ERROR(check_keywords(flags.attention.keywords, sets, *topology));
  SUTURE_ASSIGN_OR_RETURN(const EvalOptions options, options_of(flags, *topology));
  SUTURE_RETURN_IF_ERROR(check_report_file(flags.report_file));
  std::optional<PythonSandbox> sandbox;
  if (holds_programs(sets)) {
    SUTURE_ASSIGN_OR_RETURN(sandbox, PythonSandbox::create());
  }
  std::atomic<bool> cancelled = false;
  const InterruptGuard guard(cancelled);
  StepProgress progress("eval");
  const int64_t begun_ns = monotonic_ns();
  EvalSurroundings surroundings;
  surroundings.sandbox = sandbox ? &*sandbox : nullptr;
  surroundings.start = [&](const LaunchSpec& spec) {
    return start_subject(spec, flags.force, cancelled);
  };
  surroundings.on_progress = [&](std::string_view what, int64_t done, int64_t total) {
    const double left =
        seconds_since(begun_ns) * static_cast<double>(total - done) / static_cast<double>(done);
    progress.update(fmt::format("{} left, {}", duration_text(left), what), done, total);
  };
  const EvalResult result = run_eval(*topology, sets, options, surroundings, cancelled);
  const std::string report = eval_report(*topology, result, flags.seed);
  const Status written = write_report(flags.report_file, report);
  if (json)
    print_json(eval_json(*topology, result, flags.seed));
  else
    fmt::print("{}", report);
  std::fflush(stdout);
  if (result.ended_by) {
    print_failure(*result.ended_by, false);
    return exit_code_for(result.ended_by->code);
  }
  if (!written) print_failure(written.error(), false);
  return written ? kExitOk : kExitFailed;
}

}  // namespace

void add_eval_command(CLI::App& app, CommandContext& context) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* eval =
      app.add_subcommand("eval", "What a topology is worth beside its parts, on sets of questions");
  eval->add_option("topology", flags->topology, "Topology file")->required();
  eval->add_option("--set", flags->sets, "JSON Lines of items; may be given several times")
      ->required()
      ->allow_extra_args(false);
  eval->add_option("--arms", flags->arms,
                   "alone, read-all, slave, hand-off, stitched, shuffled, all")
      ->delimiter(',');
  eval->add_option("--gain", flags->gains,
                   "Log-gains of all slaves instead of the topology's: an arm for each")
      ->delimiter(',');
  eval->add_option("--choice", flags->choice, "How multiple choice is judged: text, letter, both")
      ->check(CLI::IsMember({"text", "letter", "both"}));
  eval->add_option("--limit", flags->limit, "Items of each set, drawn by the seed; 0 is all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  eval->add_option("--seed", flags->seed, "Draws the items, and whose message is shuffled to whom");
  eval->add_option("-n,--max-tokens", flags->max_tokens, "Longest answer; 0 is as the set needs")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  eval->add_option("--side-by-side", flags->side_by_side,
                   "Items at once; 0 is the topology's max_sequences")
      ->check(CLI::Range(int64_t{0}, int64_t{256}));
  add_attention_flags(*eval, flags->attention);
  eval->add_option("--out", flags->report_file, "Also write the report (Markdown) to this file");
  eval->add_flag("--force", flags->force, "Start although the memory does not suffice");
  context.set_action(eval, [flags, &context] { return run_eval_command(*flags, context.json); });
}

}  // namespace suture
