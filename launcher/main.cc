// The suture program: finds the command that was asked for and runs it.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/command.h"
#include "launcher/command_bench.h"
#include "launcher/command_chat.h"
#include "launcher/command_check.h"
#include "launcher/command_config.h"
#include "launcher/command_doctor.h"
#include "launcher/command_dump.h"
#include "launcher/command_eval.h"
#include "launcher/command_fit.h"
#include "launcher/command_inspect.h"
#include "launcher/command_launch.h"
#include "launcher/command_models.h"
#include "launcher/command_run.h"
#include "launcher/command_score.h"
#include "launcher/command_tokenize.h"
#include "launcher/command_top.h"
#include "launcher/command_transfer.h"
#include "launcher/command_worker.h"
#include "launcher/nearest.h"

namespace suture {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 ok, 1 the operation failed, 2 usage error, 3 refused by a check,\n"
    "130 interrupted.\n"
    "Environment: SUTURE_MODELS (cache of models), SUTURE_LOG (trace, debug, info, warn, error).";

void add_commands(CLI::App& app, CommandContext& context) {
  add_run_command(app, context);
  add_chat_command(app, context);
  add_launch_command(app, context);
  add_top_command(app, context);
  add_check_command(app, context);
  add_config_command(app, context);
  add_inspect_command(app, context);
  add_models_command(app, context);
  add_tokenize_command(app, context);
  add_score_command(app, context);
  add_dump_command(app, context);
  add_bench_command(app, context);
  add_eval_command(app, context);
  add_fit_command(app, context);
  add_transfer_command(app, context);
  add_doctor_command(app, context);
  add_worker_command(app, context);
}

// Messages go to standard error. Workers inherit the level through the environment.
void set_up_logging(int verbosity) {
  auto logger = spdlog::stderr_color_mt("suture");
  logger->set_pattern("%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_default_logger(std::move(logger));
  if (verbosity > 0) ::setenv("SUTURE_LOG", verbosity == 1 ? "info" : "debug", 1);
  const char* level = std::getenv("SUTURE_LOG");
  spdlog::set_level(level == nullptr ? spdlog::level::warn : spdlog::level::from_str(level));
  if (spdlog::get_level() == spdlog::level::off && std::string_view(level) != "off") {
    spdlog::set_level(spdlog::level::warn);
    spdlog::warn("SUTURE_LOG={} is no level; it stays at warn", level);
  }
}

// A launch holds some for each client, peer and connection; many systems start with 1024.
void raise_descriptor_limit() {
  constexpr rlim_t kEnough = 16'384;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnough) return;
  limit.rlim_cur = std::min(limit.rlim_max, kEnough);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// --json may stand after the word that could not be understood.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  return false;
}

int print_text(const std::string& key, const std::string& text, bool json) {
  if (json)
    print_json({{key, text}});
  else
    fmt::print("{}\n", text);
  return kExitOk;
}

// The innermost command that was recognised, for its help.
const CLI::App& recognised_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

// "suture models pull": how the command's help is asked for.
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

// What the word that no command takes was probably meant to be; empty if nothing is near.
std::string suggestion(const CLI::App& app, const CLI::App& command) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const auto commands = command.get_subcommands([](const CLI::App*) { return true; });
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CLI::App* known : commands) names.push_back(known->get_name());
  const std::vector<std::string_view> words(names.begin(), names.end());
  const auto near = unknown.empty() ? std::nullopt : nearest_word(unknown.front(), words);
  return near ? fmt::format("did you mean '{}'? ", *near) : "";
}

int answer_usage_error(const CLI::App& app, std::string what, bool json) {
  const CLI::App& command = recognised_command(app);
  print_failure({ErrorCode::kInvalidArgument, std::move(what), "command line",
                 fmt::format("{}see '{} --help'", suggestion(app, command), full_name(command))},
                json);
  return kExitUsage;
}

int answer_parse_error(const CLI::App& app, const CLI::ParseError& error, bool json) {
  if (error.get_name() == "CallForVersion") return print_text("version", error.what(), json);
  if (error.get_name() == "CallForHelp") return print_text("help", app.help(), json);
  if (error.get_name() == "CallForAllHelp")
    return print_text("help", app.help("", CLI::AppFormatMode::All), json);
  return answer_usage_error(app, error.what(), json);
}

int run_action(const CommandContext& context) {
  const CommandResult result = context.action();
  if (!result) print_failure(result.error().error, context.json);
  const int code = result ? *result : result.error().exit_code;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  // A reader that has seen enough (head) closes the pipe; that is not worth a message.
  if (errno != EPIPE)
    fmt::print(stderr, "error: standard output: the result could not be written\n");
  return code == kExitOk ? kExitFailed : code;
}

int run_command_line(int argc, char** argv) {
  CommandContext context;
  CLI::App app{"Suture runs several language models as one.", "suture"};
  app.footer(kFooter);
  app.set_version_flag("--version", SUTURE_VERSION);
  app.add_flag("--json", context.json,
               "standard output is one JSON value on one line; everything else on standard error");
  app.add_flag("-v,--verbose", context.verbosity, "say more on standard error; twice for debug");
  app.require_subcommand(0, 1);
  app.fallthrough();
  add_commands(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return answer_parse_error(app, error, asks_for_json(argc, argv));
  }
  if (!context.action) return answer_usage_error(app, "no command was given", context.json);
  set_up_logging(context.verbosity);
  return run_action(context);
}

}  // namespace
}  // namespace suture

int main(int argc, char** argv) {
  // Writing to a closed pipe or socket is an error value here, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  suture::raise_descriptor_limit();
  return suture::run_command_line(argc, argv);
}
