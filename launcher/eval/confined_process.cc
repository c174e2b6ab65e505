#include "launcher/eval/confined_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "launcher/eval/sandbox_filter.h"

namespace suture {
namespace {

constexpr int kProgramFd = 4;
constexpr int kFirstFreeFd = 10;  // above all that the child gives a number of its own

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// So that the child can give out low numbers without closing what it still needs.
Result<UniqueFd> move_up(const UniqueFd& fd) {
  UniqueFd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstFreeFd));
  if (!moved.valid()) return fail_errno("cannot copy a descriptor", errno, "sandbox");
  return moved;
}

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail_errno("cannot make a pipe", errno, "sandbox");
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  SUTURE_ASSIGN_OR_RETURN(pipe.write, move_up(pipe.write));
  return pipe;
}

// A file without a name that holds the program.
Result<UniqueFd> make_program_file(std::string_view program) {
  UniqueFd file(::memfd_create("program", MFD_CLOEXEC));
  if (!file.valid()) return fail_errno("cannot make a file in memory", errno, "sandbox");
  while (!program.empty()) {
    const ssize_t written = ::write(file.get(), program.data(), program.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno("cannot write the program", errno, "sandbox");
    program.remove_prefix(static_cast<size_t>(written));
  }
  return move_up(file);
}

Result<UniqueFd> open_nothing() {
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.valid()) return fail_errno("cannot open", errno, "/dev/null");
  return move_up(nothing);
}

// All that the child needs, made before the fork: after it only system calls are safe.
struct Setup {
  const char* interpreter;
  const std::vector<sock_filter>& filter;
  rlim_t cpu_seconds;
  rlim_t memory_bytes;
  pid_t parent;
  int nothing, output, verdict, program;  // descriptors from kFirstFreeFd on
  int failure;                            // the failed step is written here; closed by exec
};

enum Step : int { kSession, kDescriptors, kLimits, kFilter, kExec };
constexpr std::array<const char*, 5> kStepNames = {
    "cannot make a session", "cannot pass descriptors on", "cannot set limits",
    "the kernel does not confine programs (seccomp)", "cannot start the interpreter"};

struct Failure {
  int step = 0;
  int error = 0;
};

// Away from the terminal, and gone if the parent is.
bool leave_parent(const Setup& setup) {
  sigset_t none;
  ::sigemptyset(&none);
  return ::setsid() >= 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
         ::getppid() == setup.parent && ::sigprocmask(SIG_SETMASK, &none, nullptr) == 0 &&
         ::chdir("/") == 0;
}

bool pass_descriptors(const Setup& setup) {
  return ::dup2(setup.nothing, STDIN_FILENO) >= 0 && ::dup2(setup.output, STDOUT_FILENO) >= 0 &&
         ::dup2(setup.output, STDERR_FILENO) >= 0 && ::dup2(setup.verdict, kVerdictFd) >= 0 &&
         ::dup2(setup.program, kProgramFd) >= 0 &&
         ::syscall(SYS_close_range, kProgramFd + 1, ~0U, 1U << 2 /* CLOSE_RANGE_CLOEXEC */) == 0;
}

bool set_limit(__rlimit_resource resource, rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  return ::setrlimit(resource, &limit) == 0;
}

// Processes need no limit: the filter refuses every one.
bool set_limits(const Setup& setup) {
  // A second after the signal that may be caught comes the one that may not.
  return set_limit(RLIMIT_CPU, setup.cpu_seconds, setup.cpu_seconds + 1) &&
         set_limit(RLIMIT_AS, setup.memory_bytes, setup.memory_bytes) &&
         set_limit(RLIMIT_FSIZE, 0, 0) && set_limit(RLIMIT_CORE, 0, 0) &&
         set_limit(RLIMIT_NOFILE, 64, 64);
}

bool run_interpreter(const Setup& setup) {
  // No site-packages, no byte code written; the order of sets is the same each time.
  // The first argument tells the interpreter where its library is.
  const std::array<const char*, 6> arguments = {setup.interpreter, "-s",   "-S", "-B",
                                                "/proc/self/fd/4", nullptr};
  static_assert(kProgramFd == 4);
  const std::array<const char*, 4> environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8",
                                                  "PYTHONHASHSEED=0", nullptr};
  ::execve(setup.interpreter, const_cast<char* const*>(arguments.data()),
           const_cast<char* const*>(environment.data()));
  return false;
}

[[noreturn]] void run_child(const Setup& setup) {
  Failure failure{kSession, 0};
  const auto reached = [&failure](Step step, bool done) {
    if (!done) failure = {step, errno};
    return done;
  };
  if (reached(kSession, leave_parent(setup)) && reached(kDescriptors, pass_descriptors(setup)) &&
      reached(kLimits, set_limits(setup)) && reached(kFilter, enter_sandbox_filter(setup.filter)))
    reached(kExec, run_interpreter(setup));
  [[maybe_unused]] const ssize_t told = ::write(setup.failure, &failure, sizeof failure);
  ::_exit(127);
}

// What the child could not do; nothing if the interpreter runs.
Status read_failure(int fd, const std::string& interpreter) {
  Failure failure;
  ssize_t got = 0;
  do {
    got = ::read(fd, &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return {};
  if (got != sizeof failure || failure.step < 0 ||
      failure.step >= static_cast<int>(kStepNames.size()))
    return fail(ErrorCode::kLost, "the program's process ended early", "sandbox");
  return fail_errno(kStepNames[static_cast<size_t>(failure.step)], failure.error,
                    failure.step == kExec ? interpreter : "sandbox");
}

}  // namespace

Result<ConfinedProcess> ConfinedProcess::start(const ConfinedCommand& command,
                                               const std::vector<sock_filter>& filter) {
  SUTURE_ASSIGN_OR_RETURN(Pipe output, make_pipe());
  SUTURE_ASSIGN_OR_RETURN(Pipe verdict, make_pipe());
  SUTURE_ASSIGN_OR_RETURN(Pipe failure, make_pipe());
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd program, make_program_file(command.program));
  SUTURE_ASSIGN_OR_RETURN(const UniqueFd nothing, open_nothing());
  for (const int fd : {output.read.get(), verdict.read.get()})
    if (::fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
      return fail_errno("cannot read without waiting", errno, "sandbox");
  const Setup setup{command.interpreter.c_str(),
                    filter,
                    static_cast<rlim_t>(command.cpu_seconds),
                    command.memory_bytes,
                    ::getpid(),
                    nothing.get(),
                    output.write.get(),
                    verdict.write.get(),
                    program.get(),
                    failure.write.get()};
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("cannot start a process", errno, "sandbox");
  if (pid == 0) run_child(setup);
  ConfinedProcess process(pid, std::move(output.read), std::move(verdict.read));
  failure.write.reset();  // so that exec ends what can be read
  SUTURE_RETURN_IF_ERROR(read_failure(failure.read.get(), command.interpreter));
  process.pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.pidfd_.valid()) return fail_errno("cannot watch the process", errno, "sandbox");
  return process;
}

ConfinedProcess::ConfinedProcess(ConfinedProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      pidfd_(std::move(other.pidfd_)),
      output_(std::move(other.output_)),
      verdict_(std::move(other.verdict_)) {}

ConfinedProcess::~ConfinedProcess() {
  if (pid_ == 0) return;
  kill();
  [[maybe_unused]] const auto ended = wait();
}

void ConfinedProcess::kill() const { ::kill(pid_, SIGKILL); }

Result<ConfinedProcess::End> ConfinedProcess::wait() {
  const pid_t pid = std::exchange(pid_, 0);
  int status = 0;
  rusage usage{};
  while (::wait4(pid, &status, 0, &usage) < 0)
    if (errno != EINTR) return fail_errno("cannot wait for the program", errno, "sandbox");
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return End{status, seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

}  // namespace suture
