#include "launcher/command_launch.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "actors/trace_log.h"
#include "launcher/attach.h"
#include "launcher/interrupt.h"
#include "launcher/launch_start.h"
#include "launcher/sampling_flags.h"
#include "launcher/topology.h"

namespace suture {
namespace {

struct LaunchCommandOptions {
  std::string topology;
  std::string name;
  bool force = false;
};

// Whoever was admitted gets an answer, unless a second signal comes.
void drain(Launch& launch, const InterruptGuard& guard) {
  constexpr std::chrono::milliseconds kLook{50};
  launch.close();
  if (const int64_t left = launch.requests(); left > 0)
    fmt::print(stderr, "ending after {} request{}; the same signal again ends at once\n", left,
               left == 1 ? "" : "s");
  while (launch.requests() > 0 && !guard.wait_again(kLook)) {
  }
}

tl::unexpected<Error> could_not_start() {
  return fail(ErrorCode::kClosed, "the launch could not start", "launch");
}

// Seconds until the launch was ready. kCancelled, and kTimeout at the deadline of the request.
Result<double> wait_until_ready(const std::shared_future<Launch*>& running, const AskOptions& ask,
                                const std::atomic<bool>& cancelled) {
  constexpr std::chrono::milliseconds kLook{50};
  const int64_t asked = monotonic_ns();
  while (true) {
    const bool ready = running.wait_for(kLook) == std::future_status::ready;
    const double waited = seconds_since(asked);
    if (ask.deadline_seconds > 0 && waited >= ask.deadline_seconds)
      return fail(ErrorCode::kTimeout,
                  fmt::format("the launch was not ready after {:.1f} s", waited), "request",
                  "give a longer --deadline, or wait until the launch says that it is ready");
    if (ready) return waited;
    if (cancelled.load())
      return fail(ErrorCode::kCancelled, "the request was cancelled while the launch was loading");
  }
}

CommandResult run_launch_command(const LaunchCommandOptions& options, bool json) {
  auto loaded = load_topology(options.topology);
  if (!loaded) return refuse(loaded.error());
  LaunchSpec spec = std::move(*loaded);
  SUTURE_RETURN_IF_ERROR(resolve_models(spec));
  const std::string name = options.name.empty() ? spec.topology_path.stem().string() : options.name;
  std::atomic<bool> stopping = false;
  const InterruptGuard guard(stopping, SecondInterrupt::kNotice);
  // The name is taken before anything is loaded; requests wait until the launch is ready.
  std::promise<Launch*> ready;
  const std::shared_future<Launch*> running = ready.get_future().share();
  const Asker asker = [&running](const AskOptions& ask, const auto& on_text,
                                 const std::atomic<bool>& cancelled) -> Result<Answer> {
    SUTURE_ASSIGN_OR_RETURN(const double waited, wait_until_ready(running, ask, cancelled));
    Launch* const target = running.get();
    if (target == nullptr) return could_not_start();
    AskOptions rest = ask;
    if (ask.deadline_seconds > 0) rest.deadline_seconds = ask.deadline_seconds - waited;
    return target->ask(rest, on_text, cancelled);
  };
  const auto watcher = [&running, &spec] {
    const bool joining = running.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    const Launch* const target = joining ? nullptr : running.get();
    return target == nullptr ? joining_snapshot(spec) : target->snapshot();
  };
  const AttachServices services{
      asker, ask_defaults(spec),
      [&running](const std::vector<ChatTurn>& history) -> Result<OpenedConversation> {
        Launch* const target = running.get();
        if (target == nullptr) return could_not_start();
        return target->open_conversation(history);
      },
      [&running](uint64_t conversation) { running.get()->close_conversation(conversation); },
      watcher};
  SUTURE_ASSIGN_OR_RETURN(auto server, AttachServer::start(name, services));
  auto started = start_launch(spec, {.trace = true, .force = options.force});
  ready.set_value(started ? started->launch.get() : nullptr);
  if (!started) return tl::unexpected<Failure>(started.error());
  const std::unique_ptr<Launch> launch = std::move(started->launch);
  if (json)
    print_json({{"name", name},
                {"ready", true},
                {"pids", launch->pids()},
                {"memory", to_json(started->memory)}});
  else
    fmt::print(
        "{} is ready: suture chat --attach {}, suture run --attach {} -p TEXT; "
        "Ctrl-C ends it\n",
        name, name, name);
  std::fflush(stdout);
  guard.wait();
  drain(*launch, guard);
  server.reset();  // cancels what is left
  return kExitOk;
}

}  // namespace

void add_launch_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<LaunchCommandOptions>();
  CLI::App* launch =
      app.add_subcommand("launch", "Keep a topology running for run --attach and chat --attach");
  launch->add_option("topology", options->topology, "Topology file")->required();
  launch->add_option("--name", options->name,
                     "Name to attach to; the file's name without its ending by default");
  launch->add_flag("--force", options->force, "Start although the memory does not suffice");
  context.set_action(launch,
                     [options, &context] { return run_launch_command(*options, context.json); });
}

}  // namespace suture
