#include "bus/test_child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace suture {
namespace {

constexpr std::string_view kChildFlag = "--suture-test-child";
constexpr int kChildSocket = 3;
constexpr auto kHearBound = std::chrono::seconds(60);

std::map<std::string_view, ChildMain>& entries() {
  static std::map<std::string_view, ChildMain> all;
  return all;
}

}  // namespace

void ChildLink::say(const std::string& text, std::span<const int> fds) const {
  // A message without a byte would look like the end of the connection.
  const std::string line = text + '\n';
  const Status said = channel_.send(std::as_bytes(std::span(line)), fds);
  SUTURE_CHECK(said || said.error().code == ErrorCode::kClosed, "{}", said.error().message());
}

FdMessage ChildLink::next() const {
  const Status ready = channel_.wait_readable(std::chrono::steady_clock::now() + kHearBound);
  SUTURE_CHECK(ready, "{}", ready.error().message());
  auto message = channel_.receive();
  return message ? std::move(*message) : FdMessage{};
}

std::string ChildLink::hear() const {
  const FdMessage message = next();
  if (message.bytes.empty()) return "";
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size() - 1};
}

std::vector<UniqueFd> ChildLink::hear_fds() const { return next().fds; }

ChildProcess::Started ChildProcess::start(const std::string& entry,
                                          std::vector<std::string> arguments) {
  std::array<int, 2> sockets = {};
  SUTURE_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) == 0,
               "errno={}", errno);
  UniqueFd ours(sockets[0]);
  const UniqueFd theirs(sockets[1]);
  arguments.insert(arguments.begin(), {"test", std::string(kChildFlag), entry});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), kChildSocket);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  SUTURE_CHECK(error == 0, "entry={} errno={}", entry, error);
  return {std::move(ours), pid};
}

ChildProcess::ChildProcess(const std::string& entry, std::vector<std::string> arguments)
    : ChildProcess(start(entry, std::move(arguments))) {}

ChildProcess::ChildProcess(Started started)
    : ChildLink(std::move(started.socket)), pid_(started.pid) {}

ChildProcess::~ChildProcess() {
  if (status_) return;
  signal(SIGKILL);
  wait();
}

void ChildProcess::signal(int number) const {
  // A process that was waited for may have passed its number on.
  SUTURE_CHECK(!status_, "pid={}", pid_);
  SUTURE_CHECK(::kill(pid_, number) == 0, "pid={} errno={}", pid_, errno);
}

int ChildProcess::wait() {
  if (status_) return *status_;
  int status = 0;
  pid_t waited = -1;
  do {
    waited = ::waitpid(pid_, &status, 0);
  } while (waited < 0 && errno == EINTR);
  SUTURE_CHECK(waited == pid_, "pid={} errno={}", pid_, errno);
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return *status_;
}

ChildEntry::ChildEntry(const char* name, ChildMain main) {
  SUTURE_CHECK(entries().emplace(name, main).second, "two children are called {}", name);
}

std::optional<int> run_as_child(int argc, char** argv) {
  if (argc < 3 || argv[1] != kChildFlag) return std::nullopt;
  // A test that crashes leaves nobody behind.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto entry = entries().find(argv[2]);
  SUTURE_CHECK(entry != entries().end(), "no child is called {}", argv[2]);
  ::fcntl(kChildSocket, F_SETFD, FD_CLOEXEC);
  const ChildLink parent{UniqueFd(kChildSocket)};
  return entry->second(parent, {argv + 3, static_cast<size_t>(argc - 3)});
}

}  // namespace suture
