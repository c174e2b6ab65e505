#include "actors/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "actors/worker.h"

extern char** environ;

namespace suture {
namespace {

// Where the inherited descriptors lie in the worker; the order is that of kInherited below.
constexpr int kFirstInheritedFd = 3;

class SpawnSetup {
 public:
  SpawnSetup() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    sigset_t all_default;
    ::sigfillset(&all_default);
    ::posix_spawnattr_setsigdefault(&attributes_, &all_default);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSetup() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  void pass(int fd, int as) { ::posix_spawn_file_actions_adddup2(&actions_, fd, as); }
  void close_from(int first) { ::posix_spawn_file_actions_addclosefrom_np(&actions_, first); }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// A copy of `fd` above the numbers that the worker will use, so that no dup2 overwrites another.
Result<UniqueFd> out_of_the_way(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 64));
  if (!copy.valid()) return fail_errno("cannot duplicate a descriptor", errno, "supervisor");
  return copy;
}

std::string describe(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) == kExitOutOfMemory) return "out of memory";
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

void send_kill(int pidfd) { ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0); }

}  // namespace

Supervisor::Supervisor(std::filesystem::path program, const TlsIdentity& identity,
                       std::function<void(const WorkerExit&)> on_exit)
    : program_(std::move(program)),
      identity_(identity),
      on_exit_(std::move(on_exit)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

Supervisor::~Supervisor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void Supervisor::wake() const { ::eventfd_write(wake_.get(), 1); }

void Supervisor::start(WorkerTicket ticket, std::chrono::milliseconds delay) {
  {
    const std::lock_guard lock(mutex_);
    orders_.push_back({Clock::now() + delay, std::move(ticket)});
  }
  wake();
}

void Supervisor::run() {
  while (wait()) {
    reap_ended();
    start_due();
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [name, child] : children_) send_kill(child.pidfd.get());
  for (const auto& [name, child] : children_) ::waitpid(child.pid, nullptr, 0);
}

// Until a process ends, an order is due or something is said.
bool Supervisor::wait() {
  std::vector<pollfd> waited = {{wake_.get(), POLLIN, 0}};
  std::optional<Clock::time_point> next;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    for (const auto& [name, child] : children_) waited.push_back({child.pidfd.get(), POLLIN, 0});
    for (const Order& order : orders_) next = std::min(next.value_or(order.at), order.at);
  }
  int timeout_ms = -1;
  if (next) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
    timeout_ms = static_cast<int>(std::max<int64_t>(0, left.count()));
  }
  ::poll(waited.data(), waited.size(), timeout_ms);
  eventfd_t said = 0;
  ::eventfd_read(wake_.get(), &said);
  const std::lock_guard lock(mutex_);
  return !stopping_;
}

void Supervisor::reap_ended() {
  std::vector<WorkerExit> exits;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = children_.begin(); it != children_.end();) {
      const Child& child = it->second;
      int status = 0;
      if (::waitpid(child.pid, &status, WNOHANG) != child.pid) {
        ++it;
        continue;
      }
      exits.push_back({it->first, child.incarnation, child.pid, describe(status)});
      it = children_.erase(it);
    }
  }
  for (const WorkerExit& exit : exits) on_exit_(exit);
}

void Supervisor::start_due() {
  std::vector<WorkerTicket> due;
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    for (Order& order : orders_)
      if (order.at <= now) due.push_back(std::move(order.ticket));
    std::erase_if(orders_, [now](const Order& order) { return order.at <= now; });
  }
  for (WorkerTicket& ticket : due) {
    const WorkerExit failed{ticket.load.name, ticket.load.incarnation, 0, ""};
    if (const Status started = spawn(std::move(ticket)); !started)
      on_exit_({failed.name, failed.incarnation, 0, started.error().what});
  }
}

Status Supervisor::spawn(WorkerTicket ticket) {
  const int ticket_as = kFirstInheritedFd;
  ticket.certificate_fd = kFirstInheritedFd + 1;
  ticket.key_fd = kFirstInheritedFd + 2;
  ticket.launcher = ::getpid();
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd ticket_file, write_ticket(ticket));
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd ticket_fd, out_of_the_way(ticket_file.get()));
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd certificate, out_of_the_way(identity_.certificate_fd()));
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd key, out_of_the_way(identity_.key_fd()));
  SpawnSetup setup;
  setup.pass(ticket_fd.get(), ticket_as);
  setup.pass(certificate.get(), ticket.certificate_fd);
  setup.pass(key.get(), ticket.key_fd);
  setup.close_from(ticket.key_fd + 1);
  std::string program = program_.string();
  std::string arguments[] = {"suture", "worker", "--ticket", std::to_string(ticket_as)};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), nullptr};
  // Locked, so that whoever hears from the process finds it here.
  const std::lock_guard lock(mutex_);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, program.c_str(), setup.actions(), setup.attributes(), argv, environ);
  if (error != 0)
    return fail_errno(fmt::format("cannot start {}", program), error, ticket.load.name);
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  children_[ticket.load.name] = {pid, std::move(pidfd), ticket.load.incarnation};
  return {};
}

void Supervisor::kill(const std::string& name, uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  const auto child = children_.find(name);
  if (child != children_.end() && child->second.incarnation == incarnation)
    send_kill(child->second.pidfd.get());
}

pid_t Supervisor::pid_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto child = children_.find(name);
  return child == children_.end() ? 0 : child->second.pid;
}

std::vector<pid_t> Supervisor::pids() const {
  const std::lock_guard lock(mutex_);
  std::vector<pid_t> all;
  for (const auto& [name, child] : children_) all.push_back(child.pid);
  return all;
}

}  // namespace suture
