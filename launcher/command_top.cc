#include "launcher/command_top.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/attach_socket.h"
#include "launcher/interrupt.h"
#include "launcher/line_socket.h"
#include "launcher/live_screen.h"
#include "launcher/snapshot_json.h"
#include "launcher/top_table.h"

namespace suture {
namespace {

constexpr int kReplyMs = 5000;  // a launch answers from memory
constexpr int kSliceMs = 50;    // then look whether the user wants to leave

struct TopOptions {
  std::string name;
  int64_t samples = 0;  // 0 = until the user leaves
  double interval_seconds = 1;
};

// The one launch that runs, if no name was given.
Result<std::string> launch_name(const TopOptions& options) {
  if (!options.name.empty()) return options.name;
  SUTURE_ASSIGN_OR_RETURN(const std::vector<std::string> names, running_launches());
  if (names.empty())
    return fail(ErrorCode::kNotFound, "no launch is running", "top",
                "start one with 'suture launch TOPOLOGY'");
  if (names.size() > 1)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} launches are running: {}", names.size(), fmt::join(names, ", ")),
                "top", fmt::format("say which one, as in 'suture top {}'", names.front()));
  return names.front();
}

Result<LaunchSnapshot> ask_for_snapshot(LineSocket& socket) {
  SUTURE_RETURN_IF_ERROR(socket.send({{"snapshot", true}}));
  SUTURE_ASSIGN_OR_RETURN(const auto line, socket.receive(kReplyMs));
  if (!line) return fail(ErrorCode::kTimeout, "the launch does not answer", "top");
  const auto snapshot = line->find("snapshot");
  if (snapshot == line->end())
    return fail(ErrorCode::kCorrupt, "the launch sent no snapshot", "top",
                "run the same version of suture on both sides");
  return snapshot_from_json(*snapshot);
}

class TopSession {
 public:
  TopSession(std::string name, LineSocket socket, const TopOptions& options, bool json,
             const std::atomic<bool>& stopped)
      : name_(std::move(name)),
        socket_(std::move(socket)),
        options_(options),
        json_(json),
        stopped_(stopped) {
    if (!json && options.samples == 0) screen_.emplace();
  }

  Status run() {
    SUTURE_ASSIGN_OR_RETURN(LaunchSnapshot before, ask_for_snapshot(socket_));
    for (int64_t sample = 0; options_.samples == 0 || sample < options_.samples; ++sample) {
      if (screen_ && sample == 0) show(top_figures(name_, before, before));
      if (!wait()) return {};
      SUTURE_ASSIGN_OR_RETURN(LaunchSnapshot now, ask_for_snapshot(socket_));
      show(top_figures(name_, before, now));
      before = std::move(now);
    }
    return {};
  }

 private:
  void show(const TopFigures& figures) {
    if (json_)
      print_json(to_json(figures));
    else if (screen_)
      screen_->draw(top_table(figures) + "\nq leaves\n");
    else
      fmt::print("{}\n", top_table(figures));
    std::fflush(stdout);
  }

  // One interval; false if the user wants to leave.
  bool wait() const {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(options_.interval_seconds);
    while (!stopped_.load()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left <= 0) return true;
      const int slice = static_cast<int>(std::min<int64_t>(left, kSliceMs));
      if (!screen_)
        std::this_thread::sleep_for(std::chrono::milliseconds(slice));
      else if (screen_->wait_for_quit(slice))
        return false;
    }
    return false;
  }

  std::string name_;
  LineSocket socket_;
  const TopOptions& options_;
  bool json_;
  const std::atomic<bool>& stopped_;
  std::optional<LiveScreen> screen_;
};

CommandResult run_top(TopOptions options, bool json) {
  SUTURE_ASSIGN_OR_RETURN(const std::string name, launch_name(options));
  SUTURE_ASSIGN_OR_RETURN(UniqueFd fd, connect_to_launch(name));
  // A table in a file or a pipe is for one look; a live one needs a terminal.
  if (options.samples == 0 && !json && ::isatty(STDOUT_FILENO) == 0) options.samples = 1;
  std::atomic<bool> stopped = false;
  const InterruptGuard guard(stopped);
  TopSession session(name, LineSocket(std::move(fd)), options, json, stopped);
  SUTURE_RETURN_IF_ERROR(session.run());
  return kExitOk;
}

}  // namespace

void add_top_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand("top", "Watch a running launch: processes, tokens, K/V");
  top->add_option("name", options->name, "Name of the launch; may be left out if only one runs");
  top->add_option("-n,--samples", options->samples,
                  "How many looks; without it until q or Ctrl-C, or one if nobody can press a key")
      ->check(CLI::PositiveNumber);
  top->add_option("--interval", options->interval_seconds, "Seconds between two looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  context.set_action(top, [options, &context] { return run_top(*options, context.json); });
}

}  // namespace suture
