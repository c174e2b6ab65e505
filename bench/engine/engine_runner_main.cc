// engine_runner: one engine that does what it is told, line by line (runner_task.h).
//
//   engine_runner MODEL THREADS CONTEXT
//
// After its first token it writes {"ready": true}.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>

#include "bench/engine/runner_task.h"
#include "launcher/bench/timed_engine.h"
#include "launcher/command.h"

namespace suture {
namespace {

constexpr int64_t kShortPrompt = 8;  // tokens

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The clock of the wall starts in the engine, behind the reading of a history.
Result<RunnerSeconds> run_task(TimedEngine& engine, const RunnerTask& task) {
  if (task.generated_tokens > 0) SUTURE_RETURN_IF_ERROR(engine.set_history(task.history));
  const double before = cpu_seconds();
  SUTURE_ASSIGN_OR_RETURN(const double wall,
                          task.generated_tokens > 0
                              ? engine.decode(task.history, task.generated_tokens)
                              : engine.prefill(task.prompt_tokens));
  return RunnerSeconds{wall, cpu_seconds() - before};
}

int fail_with(const Error& error) {
  print_json({{"error", error_json(error)}});
  return kExitFailed;
}

int serve(const std::string& model, int threads, int64_t capacity) {
  auto engine = TimedEngine::load(model, threads, capacity);
  if (!engine) return fail_with(engine.error());
  if (const auto first = engine->decode(kShortPrompt, 1); !first) return fail_with(first.error());
  fmt::print("{{\"ready\": true}}\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const auto task = parse_task(line);
    if (!task)
      return fail_with({ErrorCode::kInvalidArgument, "no task: " + line, "engine_runner", ""});
    const auto seconds = run_task(*engine, *task);
    if (!seconds) return fail_with(seconds.error());
    fmt::print("{}\n", reply_line(*seconds));
    std::fflush(stdout);
  }
  return kExitOk;
}

}  // namespace
}  // namespace suture

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // also ends a runner that stands still
  if (argc == 4) return suture::serve(argv[1], std::atoi(argv[2]), std::atoll(argv[3]));
  fmt::print(stderr, "usage: engine_runner MODEL THREADS CONTEXT\n");
  return suture::kExitUsage;
}
