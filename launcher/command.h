// What every sub-command shares: exit codes, output and how failures are shown.
//
// A command is one function, `void add_x_command(CLI::App& app, CommandContext& context)`, which
// describes its options and ends with `context.set_action(sub, [...]() -> CommandResult {...})`.
// main.cc runs the action of the command that was given.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tl/expected.hpp>

#include "base/error.h"

namespace suture {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,         // the operation failed
  kExitUsage = 2,          // the command line or an input given with it is not valid
  kExitRefused = 3,        // the topology or its models do not pass the checks
  kExitInterrupted = 130,  // stopped by the user
};

// kInvalidArgument is a usage error, kIncompatible is refused, kCancelled interrupted.
ExitCode exit_code_for(ErrorCode code);

struct Failure {
  // NOLINTNEXTLINE(google-explicit-constructor): lets actions return any Error as it is
  Failure(Error cause) : error(std::move(cause)), exit_code(exit_code_for(error.code)) {}
  Failure(Error cause, ExitCode code) : error(std::move(cause)), exit_code(code) {}

  Error error;
  ExitCode exit_code;
};

using CommandResult = tl::expected<ExitCode, Failure>;

// return refuse(error): the same error, with the exit code that says "refused".
inline tl::unexpected<Failure> refuse(Error error) {
  return tl::unexpected<Failure>(Failure(std::move(error), kExitRefused));
}

struct CommandContext {
  bool json = false;  // --json: standard output is exactly one JSON value on one line
  int verbosity = 0;  // how often -v was given
  std::function<CommandResult()> action;

  void set_action(CLI::App* command, std::function<CommandResult()> run) {
    command->callback([this, run = std::move(run)] { action = run; });
  }
};

// One line on standard output. Bytes that are not UTF-8 become U+FFFD.
void print_json(const nlohmann::json& value);

// {"code", "what", "where", "remedy"}.
nlohmann::json error_json(const Error& error);

// "error: where: what\n  remedy: ..." on standard error and, with --json, {"error": {...}} on
// standard output.
void print_failure(const Error& error, bool json);

}  // namespace suture
