#include "bench/engine/runner_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

extern char** environ;

namespace suture {
namespace {

constexpr int kSilenceMs = 1'800'000;  // a long prompt on a slow machine

// This thread runs on these cores, and so do the processes that it starts, until the object goes.
class OnCores {
 public:
  explicit OnCores(const std::vector<int>& cores) {
    CPU_ZERO(&before_);
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
    error_ = ::sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : errno;
  }
  ~OnCores() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OnCores(const OnCores&) = delete;
  OnCores& operator=(const OnCores&) = delete;

  int error() const { return error_; }

 private:
  cpu_set_t before_;
  int error_ = 0;
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("cannot make a pipe", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<pid_t> spawn(const RunnerCommand& command, int input, int output) {
  const OnCores on_cores(command.cores);
  if (on_cores.error() != 0)
    return fail_errno("cannot run on these cores", on_cores.error(), command.program);
  std::vector<std::string> words = {command.program, command.model, fmt::to_string(command.threads),
                                    fmt::to_string(command.capacity)};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return fail_errno("cannot start the runner", failed, command.program);
  return pid;
}

}  // namespace

Result<RunnerProcess> RunnerProcess::start(const RunnerCommand& command) {
  SUTURE_ASSIGN_OR_RETURN(Pipe to, make_pipe());
  SUTURE_ASSIGN_OR_RETURN(Pipe from, make_pipe());
  const auto start = std::chrono::steady_clock::now();
  SUTURE_ASSIGN_OR_RETURN(const pid_t pid, spawn(command, to.read.get(), from.write.get()));
  from.write.reset();  // so that its end ends the answers
  RunnerProcess runner(command.program, pid, std::move(to.write), std::move(from.read));
  SUTURE_ASSIGN_OR_RETURN(const std::string line, runner.read_line());
  runner.start_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto said = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object() || !said.contains("ready"))
    return fail(ErrorCode::kLost, "the runner did not get ready: " + line, command.program);
  ::kill(pid, SIGSTOP);
  return runner;
}

RunnerProcess::RunnerProcess(RunnerProcess&& other) noexcept
    : program_(std::move(other.program_)),
      pid_(std::exchange(other.pid_, 0)),
      to_(std::move(other.to_)),
      from_(std::move(other.from_)),
      start_seconds_(other.start_seconds_) {}

RunnerProcess::~RunnerProcess() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

Result<std::string> RunnerProcess::read_line() {
  std::string line;
  while (true) {
    pollfd ready{from_.get(), POLLIN, 0};
    const int n = ::poll(&ready, 1, kSilenceMs);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) return fail(ErrorCode::kTimeout, "the runner says nothing", program_);
    char c = 0;
    if (n < 0 || ::read(from_.get(), &c, 1) != 1)
      return fail(ErrorCode::kLost, "the runner has ended: " + how_it_ended(), program_);
    if (c == '\n') return line;
    line.push_back(c);
  }
}

std::string RunnerProcess::how_it_ended() {
  const pid_t pid = std::exchange(pid_, 0);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return "unknown";
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit code {}", WEXITSTATUS(status));
}

Status RunnerProcess::begin(const RunnerTask& task) {
  const std::string line = task_line(task) + "\n";
  if (::write(to_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return fail_errno("the runner cannot be told", errno, program_);
  if (::kill(pid_, SIGCONT) != 0) return fail_errno("the runner has ended", errno, program_);
  return {};
}

Result<RunnerSeconds> RunnerProcess::finish() {
  SUTURE_ASSIGN_OR_RETURN(const std::string line, read_line());
  ::kill(pid_, SIGSTOP);
  const auto seconds = parse_reply(line);
  if (!seconds) return fail(ErrorCode::kLost, "the runner failed: " + line, program_);
  return *seconds;
}

Result<RunnerSeconds> RunnerProcess::run(const RunnerTask& task) {
  SUTURE_RETURN_IF_ERROR(begin(task));
  return finish();
}

}  // namespace suture
