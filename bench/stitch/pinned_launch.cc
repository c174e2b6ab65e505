#include "bench/stitch/pinned_launch.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <system_error>

namespace suture {
namespace {

constexpr const char* kMaster = "master";

Status pin(pid_t pid, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    const std::string name = thread.path().filename();
    pid_t id = 0;
    std::from_chars(name.data(), name.data() + name.size(), id);
    if (::sched_setaffinity(id, sizeof set, &set) != 0 && errno != ESRCH)
      return fail_errno(fmt::format("cannot pin a thread to core {}", core), errno, "stitch_bench");
  }
  return {};
}

// Each word is a token of its own.
std::string question(int64_t words) {
  std::string text;
  for (int64_t i = 0; i < words; ++i) text += " the";
  return text;
}

}  // namespace

std::string topology_of(const PinnedLaunchSpec& spec) {
  std::string text = fmt::format(
      "[bus]\nmax_seq_len = {}\nmax_sequences = 2\n\n"
      "[[model]]\nname = \"{}\"\nrole = \"master\"\npath = \"{}\"\nthreads = 1\n",
      spec.max_tokens, kMaster, spec.model);
  if (spec.slave_gain.empty()) return text;
  // How good a projector is does not matter to how long it takes.
  const std::string mode =
      spec.projector.empty()
          ? R"(mode = "concat")"
          : fmt::format(R"(mode = "project", projector = "{}", force = true)", spec.projector);
  return text +
         fmt::format(
             "\n[[model]]\nname = \"follower\"\nrole = \"slave\"\npath = \"{}\"\nthreads = 1\n"
             "on_failure = \"fail\"\n"
             "fusion = {{ {}, position = \"aligned\", lag = 1, gain = {} }}\n",
             spec.slave.empty() ? spec.model : spec.slave, mode, spec.slave_gain);
}

Result<PinnedLaunch> PinnedLaunch::start(const PinnedLaunchSpec& spec) {
  const std::filesystem::path topology = spec.folder / (spec.name + ".toml");
  std::ofstream(topology) << topology_of(spec);
  SUTURE_ASSIGN_OR_RETURN(auto launch, LaunchProcess::start(spec.program, topology, spec.name));
  SUTURE_ASSIGN_OR_RETURN(const auto processes, launch.processes());
  for (const WatchedProcess& process : processes)
    SUTURE_RETURN_IF_ERROR(
        pin(process.pid, process.name == kMaster ? spec.master_core : spec.other_core));
  SUTURE_ASSIGN_OR_RETURN(auto connection, LoadConnection::open(spec.name));
  return PinnedLaunch(std::move(launch), std::move(connection));
}

Result<Answer> PinnedLaunch::ask(int64_t words, int64_t generated_tokens) {
  AskOptions options;
  options.text = question(words);
  options.max_tokens = generated_tokens;
  options.ignore_eos = true;
  options.sampling.temperature = 0;
  LoadOutcome outcome = connection_.ask(std::move(options), {});
  if (outcome.error) return tl::unexpected<Error>(std::move(*outcome.error));
  return std::move(*outcome.answer);
}

Result<double> PinnedLaunch::decode_rate(int64_t prompt_tokens, int64_t generated_tokens) {
  if (tokens_beside_words_ < 0) {
    constexpr int64_t kWords = 10;
    SUTURE_ASSIGN_OR_RETURN(const Answer answer, ask(kWords, 1));
    tokens_beside_words_ = answer.prompt_tokens - kWords;
  }
  SUTURE_ASSIGN_OR_RETURN(
      const Answer answer,
      ask(std::max<int64_t>(prompt_tokens - tokens_beside_words_, 0), generated_tokens));
  const auto master = std::ranges::find(answer.figures, kMaster, &ProcessFigures::name);
  if (answer.prompt_tokens != prompt_tokens || master == answer.figures.end() ||
      master->decoded_tokens != generated_tokens)
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("{} tokens were read instead of {}, and {} generated instead of {}",
                    answer.prompt_tokens, prompt_tokens,
                    master == answer.figures.end() ? 0 : master->decoded_tokens, generated_tokens),
        "stitch_bench");
  return static_cast<double>(master->decoded_tokens) / master->decode_seconds;
}

}  // namespace suture
