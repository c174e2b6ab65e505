#include "launcher/command_chat.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "launcher/attach_client.h"
#include "launcher/chat_input.h"
#include "launcher/chat_session.h"
#include "launcher/interrupt.h"
#include "launcher/launch_start.h"
#include "launcher/line_editor.h"
#include "launcher/sampling_flags.h"
#include "launcher/topology.h"

namespace suture {
namespace {

constexpr size_t kMaxLineBytes = 4 << 20;

struct ChatOptions {
  std::string topology;
  std::string attach_name;
  bool force = false;
  SamplingFlags sampling;
};

// Lines of a pipe or file, until an interrupt.
class PipedLines {
 public:
  explicit PipedLines(int wake_fd) : wake_fd_(wake_fd) {}

  // Nothing at the end, after an interrupt, or when a line is longer than kMaxLineBytes.
  std::optional<std::string> next() {
    size_t end = 0;
    while ((end = buffer_.find('\n')) == std::string::npos)
      if (!read_more()) return last_line();
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }

 private:
  bool read_more() {
    pollfd polled[2] = {{STDIN_FILENO, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    while (::poll(polled, 2, -1) < 0 && errno == EINTR) {
    }
    if (polled[1].revents != 0 || buffer_.size() > kMaxLineBytes) {
      buffer_.clear();
      return false;
    }
    std::array<char, 65536> bytes{};
    const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got > 0) buffer_.append(bytes.data(), static_cast<size_t>(got));
    return got > 0;
  }

  std::optional<std::string> last_line() {
    if (buffer_.empty()) return std::nullopt;
    return std::exchange(buffer_, {});
  }

  int wake_fd_;
  std::string buffer_;
};

void say(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

// Ctrl-C stops an answer; at the prompt it drops the line, and leaves when given twice.
Status talk_at_terminal(ChatSession& session, InterruptGuard& guard,
                        const std::atomic<bool>& interrupted) {
  SUTURE_ASSIGN_OR_RETURN(auto editor,
                          LineEditor::create(stdin, stderr, guard.wake_fd(), chat_history_file()));
  say("Ask; /help lists what else there is.\n");
  MessageAssembler assembler;
  bool leaving = false;
  while (!guard.terminated()) {
    const TypedLine line = editor->read(assembler.unfinished() ? ". " : "> ");
    if (line.end == LineEnd::kEnd) {
      say("\n");
      return {};
    }
    if (line.end == LineEnd::kInterrupted) {
      guard.reset();
      assembler.clear();
      say(leaving ? "\n" : "\n(Ctrl-C again or Ctrl-D leaves)\n");
      if (std::exchange(leaving, true)) return {};
      continue;
    }
    leaving = false;
    const auto message = assembler.add(line.text);
    if (message && !session.handle(*message, interrupted)) return {};
    guard.reset();
  }
  return {};
}

void talk_through_pipe(ChatSession& session, const InterruptGuard& guard,
                       const std::atomic<bool>& interrupted) {
  PipedLines lines(guard.wake_fd());
  MessageAssembler assembler;
  while (!interrupted.load()) {
    const auto line = lines.next();
    const auto message = line ? assembler.add(*line) : assembler.finish();
    if (message && !session.handle(*message, interrupted)) return;
    if (!line) return;
  }
}

CommandResult talk(ChatBackend& backend, const AskOptions& ask, bool json) {
  ChatOutput output;
  output.answer = [json](std::string_view text) {
    if (json) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  output.note = say;
  ChatSession session(backend, ask, output);
  std::atomic<bool> interrupted = false;
  InterruptGuard guard(interrupted, SecondInterrupt::kIgnore);
  const bool terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0;
  if (terminal)
    SUTURE_RETURN_IF_ERROR(talk_at_terminal(session, guard, interrupted));
  else
    talk_through_pipe(session, guard, interrupted);
  if (json) print_json(session.to_json());
  if (guard.terminated() || (!terminal && interrupted.load())) return kExitInterrupted;
  return terminal || session.failures() == 0 ? kExitOk : kExitFailed;
}

CommandResult chat_with_launch(const ChatOptions& options, bool json) {
  auto spec = load_topology(options.topology);
  if (!spec) return refuse(spec.error());
  SUTURE_RETURN_IF_ERROR(resolve_models(*spec));
  const AskOptions ask = apply(options.sampling, ask_defaults(*spec));
  SUTURE_RETURN_IF_ERROR(validate(ask, spec->max_seq_len));
  SUTURE_ASSIGN_OR_RETURN(const StartedLaunch started,
                          start_launch(*spec, {.trace = false, .force = options.force}));
  LaunchChat backend(*started.launch);
  return talk(backend, ask, json);
}

CommandResult chat_with_attached(const ChatOptions& options, bool json) {
  SUTURE_ASSIGN_OR_RETURN(const Attached launch, attach(options.attach_name));
  SUTURE_ASSIGN_OR_RETURN(const auto backend, attach_chat(options.attach_name));
  return talk(*backend, apply(options.sampling, launch.defaults), json);
}

}  // namespace

void add_chat_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* chat = app.add_subcommand("chat", "Hold a conversation with a topology");
  CLI::Option* topology = chat->add_option("topology", options->topology, "Topology file");
  CLI::Option* attached = chat->add_option(
      "--attach", options->attach_name, "Talk to a running 'suture launch' of this name instead");
  attached->excludes(topology);
  chat->add_flag("--force", options->force, "Start although the memory does not suffice")
      ->excludes(attached);
  add_sampling_flags(*chat, options->sampling);
  context.set_action(chat, [options, &context]() -> CommandResult {
    if (!options->attach_name.empty()) return chat_with_attached(*options, context.json);
    if (!options->topology.empty()) return chat_with_launch(*options, context.json);
    return tl::unexpected<Failure>(Error{ErrorCode::kInvalidArgument, "no topology", "command line",
                                         "give a topology file, or --attach NAME"});
  });
}

}  // namespace suture
