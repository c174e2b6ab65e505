#include "bench/load/launched.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/load/client.h"
#include "launcher/attach_socket.h"

extern char** environ;

namespace suture {
namespace {

// A child whose standard output is the pipe.
Result<pid_t> spawn(std::vector<std::string> arguments, int output) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return fail_errno("cannot start", failed, arguments[0]);
  return pid;
}

std::string read_line(int fd) {
  std::string line;
  for (char c = 0; ::read(fd, &c, 1) == 1 && c != '\n';) line.push_back(c);
  return line;
}

}  // namespace

Result<LaunchProcess> LaunchProcess::start(const std::filesystem::path& program,
                                           const std::filesystem::path& topology,
                                           const std::string& name) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno("no pipe", errno, "load");
  UniqueFd output(ends[0]);
  UniqueFd input(ends[1]);
  SUTURE_ASSIGN_OR_RETURN(const pid_t pid, spawn({program.string(), "launch", topology.string(),
                                                  "--name", name, "--json"},
                                                 input.get()));
  input.reset();  // so that its end ends the line
  LaunchProcess launch(name, pid, true, std::move(output));
  const std::string line = read_line(launch.output_.get());
  const auto said = nlohmann::json::parse(line, nullptr, false);
  if (!said.is_object() || !said.contains("ready"))
    return fail(ErrorCode::kClosed, "the launch could not start: " + line, "load");
  return launch;
}

Result<LaunchProcess> LaunchProcess::attach(const std::string& name) {
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd socket, connect_to_launch(name));
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return fail_errno("cannot ask who listens", errno, name);
  return LaunchProcess(name, peer.pid, false, UniqueFd());
}

LaunchProcess::LaunchProcess(LaunchProcess&& other) noexcept
    : name_(std::move(other.name_)),
      pid_(other.pid_),
      started_(std::exchange(other.started_, false)),
      output_(std::move(other.output_)) {}

LaunchProcess::~LaunchProcess() {
  if (!started_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Result<std::vector<WatchedProcess>> LaunchProcess::processes() const {
  SUTURE_ASSIGN_OR_RETURN(LoadConnection connection, LoadConnection::open(name_));
  SUTURE_ASSIGN_OR_RETURN(const LaunchSnapshot snapshot, connection.snapshot());
  std::vector<WatchedProcess> processes = {{"launcher", pid_}};
  for (const ProcessSnapshot& process : snapshot.processes)
    if (process.pid != 0) processes.push_back({process.name, process.pid});
  return processes;
}

Status LaunchProcess::end() {
  if (!std::exchange(started_, false)) return {};
  ::kill(pid_, SIGTERM);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  if (WIFSIGNALED(status))
    return fail(ErrorCode::kLost, fmt::format("the launch died of signal {}", WTERMSIG(status)),
                "load");
  if (WEXITSTATUS(status) != 0)
    return fail(ErrorCode::kLost, fmt::format("the launch ended with {}", WEXITSTATUS(status)),
                "load");
  if (connect_to_launch(name_))
    return fail(ErrorCode::kBusy, "the launch has ended and its socket still answers", "load");
  return {};
}

}  // namespace suture
