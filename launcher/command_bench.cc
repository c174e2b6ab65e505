#include "launcher/command_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "actors/process_memory.h"
#include "launcher/bench/engine_figures.h"
#include "launcher/download.h"
#include "launcher/progress.h"
#include "launcher/system_info.h"

namespace suture {
namespace {

struct BenchOptions {
  std::string model;
  int threads = allowed_cores();
  EngineTask task;
};

// A quarter of what is free is enough on a small machine, if it is still far more than a cache.
size_t read_buffer_bytes() {
  constexpr uint64_t kMost = uint64_t{1} << 30;
  return std::min(kMost, available_memory_bytes() / 4);
}

CommandResult run_bench(const BenchOptions& options, bool as_json) {
  const EngineTask& task = options.task;
  SUTURE_ASSIGN_OR_RETURN(const auto path, resolve_model(options.model));
  SUTURE_ASSIGN_OR_RETURN(
      auto engine,
      TimedEngine::load(path, options.threads, task.prompt_tokens + task.generated_tokens));
  // One pass of each kind touches all that the engine will ever need; what is measured with comes
  // after its memory has been counted.
  SUTURE_RETURN_IF_ERROR(engine.prefill(task.prompt_tokens));
  SUTURE_RETURN_IF_ERROR(engine.decode(task.prompt_tokens, 1));
  const int64_t resident = resident_bytes();
  SUTURE_ASSIGN_OR_RETURN(const Isa isa, isa_from_environment());
  SUTURE_ASSIGN_OR_RETURN(auto limits,
                          MachineLimits::create(options.threads, isa, read_buffer_bytes()));
  StepProgress progress(options.model);
  SUTURE_ASSIGN_OR_RETURN(
      EngineFigures figures,
      measure_engine(engine, limits, task, [&](std::string_view what, int64_t done, int64_t total) {
        progress.update(what, done, total);
      }));
  figures.model = options.model;
  figures.resident_bytes = resident;
  if (as_json)
    print_json(to_json(figures));
  else
    fmt::print("{}", engine_table(figures));
  return kExitOk;
}

}  // namespace

void add_bench_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand(
      "bench", "How fast this machine runs a model, and how near that is to its limits");
  command
      ->add_option("model", options->model,
                   "Name from `suture models list`, .gguf file or checkpoint folder")
      ->required();
  command->add_option("--threads", options->threads, "Threads; by default one for each core")
      ->check(CLI::Range(1, allowed_cores()));
  command->add_option("--prompt", options->task.prompt_tokens, "Tokens of the prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--generate", options->task.generated_tokens, "Tokens generated after it")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--rounds", options->task.rounds, "Measurements of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  context.set_action(command, [options, &context] { return run_bench(*options, context.json); });
}

}  // namespace suture
