#include "launcher/command_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/launch.h"
#include "launcher/answer_table.h"
#include "launcher/attach_client.h"
#include "launcher/attention_flags.h"
#include "launcher/interrupt.h"
#include "launcher/launch_start.h"
#include "launcher/run_session.h"
#include "launcher/sampling_flags.h"
#include "launcher/text_file.h"
#include "launcher/topology.h"
#include "launcher/trace.h"

namespace suture {
namespace {

struct RunOptions {
  std::string topology;
  std::string attach_name;
  std::vector<std::string> prompts;
  std::string questions_file;
  std::vector<std::string> documents;  // SLAVE=FILE
  std::string trace_file;
  bool compare = false;
  bool force = false;
  SamplingFlags sampling;
  std::optional<double> gain;
  AttentionQuery attention;
};

Result<std::vector<QuestionItem>> questions(const RunOptions& options) {
  std::vector<QuestionItem> items;
  for (const std::string& prompt : options.prompts) items.push_back({prompt, {}});
  if (!options.questions_file.empty()) {
    SUTURE_ASSIGN_OR_RETURN(const auto more, load_questions(options.questions_file));
    items.insert(items.end(), more.begin(), more.end());
  }
  if (items.empty())
    return fail(ErrorCode::kInvalidArgument, "nothing to answer", "command line",
                "give -p TEXT or --questions FILE");
  return items;
}

// --gain replaces what the topology says of every slave, so that a shell loop can sweep it.
void override_gain(const RunOptions& options, LaunchSpec& spec) {
  if (!options.gain) return;
  for (ModelSpec& model : spec.models) {
    model.fusion.gain = *options.gain;
    model.fusion.layer_gain.clear();
  }
}

struct GivenDocument {
  std::string slave;
  std::filesystem::path file;
};

Result<std::vector<GivenDocument>> given_documents(const RunOptions& options) {
  std::vector<GivenDocument> given;
  for (const std::string& text : options.documents) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
      return fail(ErrorCode::kInvalidArgument, fmt::format("expected SLAVE=FILE, got '{}'", text),
                  "--document");
    given.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return given;
}

// In place of what the topology says of these slaves. Several files of one slave are read in one
// piece, in the order they are given.
Status override_documents(const RunOptions& options, LaunchSpec& spec) {
  SUTURE_ASSIGN_OR_RETURN(const auto given, given_documents(options));
  std::set<std::string> seen;
  for (const GivenDocument& document : given) {
    const auto model = std::ranges::find(spec.models, document.slave, &ModelSpec::name);
    if (model == spec.models.end() || !model->is_slave_at(SlavePosition::kPrefix))
      return fail(ErrorCode::kInvalidArgument, "no slave of this name reads documents",
                  document.slave, "name a slave with position = \"prefix\"");
    SUTURE_RETURN_IF_ERROR(read_text_file(document.file, kMaxDocumentBytes));
    if (seen.insert(document.slave).second) model->documents.clear();
    model->documents.push_back(document.file);
  }
  return {};
}

// The same for a launch that runs: the texts go with every question.
Result<SlaveTexts> documents_to_send(const RunOptions& options) {
  SUTURE_ASSIGN_OR_RETURN(const auto given, given_documents(options));
  SlaveTexts texts;
  for (const GivenDocument& document : given) {
    SUTURE_ASSIGN_OR_RETURN(std::string text, read_text_file(document.file, kMaxDocumentBytes));
    auto& all = texts.documents;
    auto slave = std::ranges::find(all, document.slave, &SlaveDocuments::slave);
    if (slave == all.end()) slave = all.insert(slave, {document.slave, {}});
    slave->texts.push_back(std::move(text));
  }
  return texts;
}

Status save_trace(const RunOptions& options, const SessionResult& result) {
  if (options.trace_file.empty()) return {};
  std::vector<TraceSpan> spans;
  for (const AnsweredQuestion& done : result.questions)
    spans.insert(spans.end(), done.answer.spans.begin(), done.answer.spans.end());
  return write_trace(options.trace_file, spans);
}

struct RunResult {
  LaunchMemory memory;
  SessionResult session;
};

// Starts the topology, answers everything, ends the processes.
Result<RunResult> run_launch(const LaunchSpec& spec, const SessionOptions& session,
                             const StartOptions& start, const std::atomic<bool>& cancelled) {
  SUTURE_ASSIGN_OR_RETURN(StartedLaunch started, start_launch(spec, start));
  const Asker asker = [&started](const AskOptions& ask, const auto& on_text, const auto& stop) {
    return started.launch->ask(ask, on_text, stop);
  };
  SUTURE_ASSIGN_OR_RETURN(SessionResult result, run_session(asker, session, cancelled));
  if (session.print) fmt::print("\n{}", answer_table(result.processes));
  std::fflush(stdout);
  return RunResult{std::move(started.memory), std::move(result)};
}

nlohmann::json to_json(const RunResult& result) {
  nlohmann::json json = to_json(result.session);
  json["memory"] = to_json(result.memory);
  return json;
}

void print_comparison(const SessionResult& stitched, const SessionResult& alone) {
  const auto row = [](const char* name, const SessionResult& result) {
    fmt::print("{:<28} {:>6} of {:<6} {:>14.1f} {:>10.1f}\n", name, result.facts_held,
               result.facts_expected, result.questions.front().answer.first_token_seconds,
               result.seconds);
  };
  fmt::print("\n{:<28} {:>16} {:>14} {:>10}\n", "", "facts found", "first token s", "total s");
  row("stitched", stitched);
  row("one process reads it all", alone);
}

CommandResult run_topology(const RunOptions& options, bool json) {
  SUTURE_ASSIGN_OR_RETURN(const auto items, questions(options));
  auto loaded = load_topology(options.topology);
  if (!loaded) return refuse(loaded.error());
  LaunchSpec spec = std::move(*loaded);
  SUTURE_RETURN_IF_ERROR(resolve_models(spec));
  override_gain(options, spec);
  SUTURE_RETURN_IF_ERROR(override_documents(options, spec));
  SessionOptions session{items, apply(options.sampling, ask_defaults(spec)), !json};
  session.ask.attention = options.attention;
  SUTURE_RETURN_IF_ERROR(validate(session.ask, spec.max_seq_len));
  if (!options.trace_file.empty()) SUTURE_RETURN_IF_ERROR(check_trace_file(options.trace_file));
  std::optional<LaunchSpec> alone_spec;
  if (options.compare) {
    SUTURE_ASSIGN_OR_RETURN(alone_spec, one_process_spec(spec));
  }
  std::atomic<bool> cancelled = false;
  const InterruptGuard guard(cancelled);
  SUTURE_ASSIGN_OR_RETURN(
      const RunResult stitched,
      run_launch(spec, session, {.trace = !options.trace_file.empty(), .force = options.force},
                 cancelled));
  nlohmann::json result = to_json(stitched);
  const Status traced = save_trace(options, stitched.session);
  if (!traced) {  // the answers are not lost with it
    print_failure(traced.error(), false);
    result["trace_error"] = error_json(traced.error());
  }
  if (alone_spec) {
    if (!json) fmt::print("\nThe same with one process that reads everything:\n");
    SUTURE_ASSIGN_OR_RETURN(
        const RunResult alone,
        run_launch(*alone_spec, session, {.trace = false, .force = options.force}, cancelled));
    if (!json) print_comparison(stitched.session, alone.session);
    result["one_process"] = to_json(alone);
  }
  if (json) print_json(result);
  return traced ? kExitOk : kExitFailed;
}

CommandResult run_attached(const RunOptions& options, bool json) {
  SUTURE_ASSIGN_OR_RETURN(const auto items, questions(options));
  SUTURE_ASSIGN_OR_RETURN(const Attached launch, attach(options.attach_name));
  std::atomic<bool> cancelled = false;
  const InterruptGuard guard(cancelled);
  SessionOptions session{items, apply(options.sampling, launch.defaults), !json};
  session.ask.attention = options.attention;
  SUTURE_ASSIGN_OR_RETURN(session.ask.slave_texts, documents_to_send(options));
  SUTURE_ASSIGN_OR_RETURN(const SessionResult result, run_session(launch.ask, session, cancelled));
  if (!json) fmt::print("\n{}", answer_table(result.processes));
  if (json) print_json(to_json(result));
  return kExitOk;
}

}  // namespace

void add_run_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "Answer questions on a topology and print figures");
  CLI::Option* topology = run->add_option("topology", options->topology, "Topology file");
  CLI::Option* attached = run->add_option("--attach", options->attach_name,
                                          "Ask a running 'suture launch' of this name instead");
  attached->excludes(topology);
  run->add_option("-p,--prompt", options->prompts, "Question; may be given several times")
      ->allow_extra_args(false);
  run->add_option("--questions", options->questions_file,
                  "JSON Lines with \"question\" and \"expect\", the facts of a right answer");
  run->add_option("--document", options->documents,
                  "SLAVE=FILE: what a slave with position = \"prefix\" reads, instead of the "
                  "topology's documents; may be given several times")
      ->allow_extra_args(false);
  add_sampling_flags(*run, options->sampling);
  add_attention_flags(*run, options->attention);
  run->add_option(
         "--gain", options->gain,
         "Log-gain of every slave instead of the topology's, as in --gain=-2 or --gain=-inf")
      ->excludes(attached);
  run->add_flag("--compare", options->compare,
                "Then answer the same with one process that reads everything")
      ->excludes(attached);
  run->add_flag("--force", options->force, "Start although the memory does not suffice")
      ->excludes(attached);
  run->add_option("--trace", options->trace_file, "Write a trace that Perfetto opens")
      ->excludes(attached);
  context.set_action(run, [options, &context]() -> CommandResult {
    if (!options->attach_name.empty()) return run_attached(*options, context.json);
    if (!options->topology.empty()) return run_topology(*options, context.json);
    return tl::unexpected<Failure>(Error{ErrorCode::kInvalidArgument, "no topology", "command line",
                                         "give a topology file, or --attach NAME"});
  });
}

}  // namespace suture
