// compare_peer: ours and llama.cpp in turns, with the same tasks on the same cores.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "bench/engine/comparison.h"
#include "bench/engine/cores.h"
#include "bench/engine/peer_build.h"
#include "launcher/command.h"
#include "launcher/download.h"
#include "models/checkpoint.h"

namespace suture {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kShortHistory = 512;  // tokens

struct Options {
  std::vector<std::string> models = {"smollm2-135m-instruct", "gemma-3-270m",
                                     "qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"};
  std::vector<int> threads = {1, 2};
  std::vector<int64_t> prompts = {64, 512, 2048};
  int64_t generated = 48;
  int64_t history = 8192;
  int pairs = 5;
  bool start = true;
  std::string peer_environment;
  bool with_amx = true;
  bool json = false;
};

void progress(const std::string& text) { fmt::print(stderr, "{}\n", text); }

struct Sides {
  RunnerCommand ours;
  RunnerCommand peer;
};

int64_t timed_tokens(const RunnerTask& task) {
  return std::max(task.prompt_tokens, task.generated_tokens);
}

std::string name_of(const RunnerTask& task) {
  return task.generated_tokens > 0
             ? fmt::format("decode {} after {}", task.generated_tokens, task.history)
             : fmt::format("prefill {}", task.prompt_tokens);
}

// Those that fit into the model; the history in the end, so that it is read once.
std::vector<RunnerTask> tasks_for(const Options& options, int64_t max_tokens) {
  std::vector<RunnerTask> tasks;
  for (const int64_t n : options.prompts) tasks.push_back({.prompt_tokens = n});
  for (const int64_t history : {kShortHistory, options.history})
    if (history > 0) tasks.push_back({.history = history, .generated_tokens = options.generated});
  std::erase_if(tasks, [max_tokens](const RunnerTask& task) {
    return task.history + timed_tokens(task) > max_tokens;
  });
  return tasks;
}

Result<std::vector<Comparison>> compare_tasks(const Options& options, Sides sides,
                                              const std::vector<RunnerTask>& tasks) {
  for (const RunnerTask& task : tasks)
    for (RunnerCommand* side : {&sides.ours, &sides.peer})
      side->capacity = std::max(side->capacity, task.history + timed_tokens(task));
  SUTURE_ASSIGN_OR_RETURN(auto ours, RunnerProcess::start(sides.ours));
  SUTURE_ASSIGN_OR_RETURN(auto peer, RunnerProcess::start(sides.peer));
  std::vector<Comparison> comparisons;
  for (const RunnerTask& task : tasks) {
    progress("  " + name_of(task));
    SUTURE_ASSIGN_OR_RETURN(const auto pairs, run_pairs(ours, peer, task, options.pairs));
    comparisons.push_back(compare(pairs, timed_tokens(task)));
    comparisons.back().task = name_of(task);
  }
  return comparisons;
}

Result<std::vector<Comparison>> compare_model(const Options& options, const std::string& model,
                                              int threads, const std::string& peer_program) {
  progress(fmt::format("{}, {} threads", model, threads));
  SUTURE_ASSIGN_OR_RETURN(const fs::path path, resolve_model(model));
  SUTURE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(path));
  SUTURE_ASSIGN_OR_RETURN(const std::vector<int> cores, first_cores(threads));
  const std::string own_program =
      fs::read_symlink("/proc/self/exe").parent_path() / "engine_runner";
  Sides sides;
  sides.ours = {own_program, path, threads, kShortHistory, cores};
  sides.peer = {peer_program, path, threads, kShortHistory, cores};
  std::vector<Comparison> comparisons;
  if (options.start) {
    progress("  start");
    SUTURE_ASSIGN_OR_RETURN(const auto starts, start_pairs(sides.ours, sides.peer, options.pairs));
    comparisons.push_back(compare_starts(starts));
  }
  const auto tasks = tasks_for(options, checkpoint->config().max_positions);
  SUTURE_ASSIGN_OR_RETURN(auto more, compare_tasks(options, sides, tasks));
  std::ranges::move(more, std::back_inserter(comparisons));
  for (Comparison& c : comparisons) {
    c.model = model;
    c.threads = threads;
  }
  return comparisons;
}

fs::path default_environment(bool with_amx) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path base =
      cache != nullptr ? fs::path(cache) : fs::path(home != nullptr ? home : ".") / ".cache";
  return base / "suture/peers" /
         fmt::format("llama-cpp-python-{}{}", kPeerVersion, with_amx ? "" : "-no-amx");
}

Result<std::vector<Comparison>> run(const Options& options) {
  const PeerOptions peer = {.environment = options.peer_environment.empty()
                                               ? default_environment(options.with_amx)
                                               : fs::path(options.peer_environment),
                            .source = fs::path(SUTURE_SOURCE_DIR) / "bench/peer/llamacpp_runner.cc",
                            .with_amx = options.with_amx};
  SUTURE_ASSIGN_OR_RETURN(const fs::path peer_program, build_peer(peer, progress));
  std::vector<Comparison> comparisons;
  for (const std::string& model : options.models) {
    for (const int threads : options.threads) {
      SUTURE_ASSIGN_OR_RETURN(auto more, compare_model(options, model, threads, peer_program));
      std::ranges::move(more, std::back_inserter(comparisons));
    }
  }
  return comparisons;
}

int main_with(const Options& options) {
  const auto comparisons = run(options);
  if (!comparisons) {
    print_failure(comparisons.error(), options.json);
    return kExitFailed;
  }
  const bool sound = std::ranges::none_of(*comparisons, &Comparison::disturbed);
  if (options.json) {
    nlohmann::json json = {{"peer", fmt::format("llama-cpp-python {}", kPeerVersion)},
                           {"sound", sound},
                           {"comparisons", nlohmann::json::array()}};
    for (const Comparison& c : *comparisons) json["comparisons"].push_back(to_json(c));
    print_json(json);
  } else {
    fmt::print("{}", comparison_table(*comparisons));
  }
  if (!sound) progress("not sound: other processes ran meanwhile");
  return sound ? kExitOk : kExitFailed;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option(
      "model", options.models,
      "Names from `suture models list` or .gguf files; by default four of different sizes");
  app.add_option("--threads", options.threads, "Threads of each engine, and as many cores")
      ->capture_default_str();
  app.add_option("--prefill", options.prompts, "Lengths of prompts, tokens")->capture_default_str();
  app.add_option("--generate", options.generated,
                 "Tokens to generate, after 512 and after --history")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--history", options.history,
                 "Tokens of a long history, where the model can hold them; 0 = leave it out")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--pairs", options.pairs, "Measurements of each side")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--start,!--no-start", options.start,
               "Also the time from process start to first token");
  app.add_option("--peer-venv", options.peer_environment,
                 "Python environment with the peer; made and filled if it is not there (by default "
                 "in the cache folder)");
  app.add_flag("!--no-amx", options.with_amx, "Build the peer without AMX");
  app.add_flag("--json", options.json, "One JSON value on standard output");
}

}  // namespace
}  // namespace suture

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a runner that has ended is an error value
  suture::Options options;
  CLI::App app("Ours and llama.cpp in turns: how much faster is which?");
  suture::add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  return suture::main_with(options);
}
