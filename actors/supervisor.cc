#include "actors/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <utility>

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
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

}  // namespace

Supervisor::~Supervisor() {
  for (auto& [name, child] : children_)
    ::syscall(SYS_pidfd_send_signal, child.pidfd.get(), SIGKILL, nullptr, 0);
  for (auto& [name, child] : children_) ::waitpid(child.pid, nullptr, 0);
}

Status Supervisor::start(WorkerTicket ticket, const TlsIdentity& identity) {
  const int ticket_as = kFirstInheritedFd;
  ticket.certificate_fd = kFirstInheritedFd + 1;
  ticket.key_fd = kFirstInheritedFd + 2;
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd ticket_file, write_ticket(ticket));
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd ticket_fd, out_of_the_way(ticket_file.get()));
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd certificate, out_of_the_way(identity.certificate_fd()));
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd key, out_of_the_way(identity.key_fd()));
  SpawnSetup setup;
  setup.pass(ticket_fd.get(), ticket_as);
  setup.pass(certificate.get(), ticket.certificate_fd);
  setup.pass(key.get(), ticket.key_fd);
  setup.close_from(ticket.key_fd + 1);
  std::string program = program_.string();
  std::string arguments[] = {"suture", "worker", "--ticket", std::to_string(ticket_as)};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), nullptr};
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, program.c_str(), setup.actions(), setup.attributes(), argv, environ);
  if (error != 0)
    return fail_errno(fmt::format("cannot start {}", program), error, ticket.load.name);
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const std::lock_guard lock(mutex_);
  children_[ticket.load.name] = {pid, std::move(pidfd)};
  return {};
}

void Supervisor::kill(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto child = children_.find(name);
  if (child != children_.end())
    ::syscall(SYS_pidfd_send_signal, child->second.pidfd.get(), SIGKILL, nullptr, 0);
}

std::string Supervisor::reap(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto child = children_.find(name);
  if (child == children_.end()) return "gone";
  int status = 0;
  if (::waitpid(child->second.pid, &status, WNOHANG) != child->second.pid) return "gone";
  children_.erase(child);
  return describe(status);
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
