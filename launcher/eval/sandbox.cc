#include "launcher/eval/sandbox.h"

#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <tuple>
#include <utility>

#include "launcher/eval/confined_process.h"
#include "launcher/eval/sandbox_filter.h"
#include "launcher/program.h"
#include "models/unicode.h"

namespace suture {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxProgramBytes = 1 << 20;
constexpr size_t kMaxReason = 200;

// `python3` may be a script that starts the interpreter, which the sandbox would refuse.
Result<std::filesystem::path> find_interpreter() {
  const auto asked = run_program({"python3", "-c", "import sys; print(sys.executable)"});
  const std::string remedy = "install the Debian package python3";
  if (!asked)
    return fail(asked.error().code, "no python3: " + asked.error().what, "sandbox", remedy);
  const std::filesystem::path path = asked->output.substr(0, asked->output.find('\n'));
  if (asked->exit_code != 0 || !path.is_absolute())
    return fail(ErrorCode::kNotFound, "python3 does not run: " + printable(asked->output),
                "sandbox", remedy);
  return path;
}

// A word that no program knows beforehand.
Result<std::string> make_password() {
  std::array<uint64_t, 2> bits{};
  if (::getrandom(bits.data(), sizeof bits, 0) != sizeof bits)
    return fail_errno("no random bits", errno, "sandbox");
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

// Appends what can be read now; false at the end of the pipe.
bool drain(int fd, std::string& text, size_t most) {
  std::array<char, 4096> buffer{};
  while (text.size() <= most) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return true;
}

// What was seen of a process until its end.
struct Observation {
  std::string output;
  bool too_slow = false;
  bool too_loud = false;
};

int milliseconds_until(Clock::time_point when) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

Observation observe(const ConfinedProcess& process, const SandboxLimits& limits) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(limits.wall_seconds));
  Observation seen;
  std::array<pollfd, 2> waits = {{{process.pidfd(), POLLIN, 0}, {process.output(), POLLIN, 0}}};
  while (true) {
    waits[0].revents = waits[1].revents = 0;
    ::poll(waits.data(), waits.size(), milliseconds_until(deadline));
    // A closed output is not watched any more; the process may live on.
    if (waits[1].revents != 0 && !drain(process.output(), seen.output, limits.output_bytes))
      waits[1].fd = -1;
    if (waits[0].revents != 0 || seen.output.size() > limits.output_bytes) break;
    seen.too_slow = Clock::now() >= deadline;
    if (seen.too_slow) break;
  }
  process.kill();  // nothing happens to one that has ended
  drain(process.output(), seen.output, limits.output_bytes);
  seen.too_loud = seen.output.size() > limits.output_bytes;
  return seen;
}

std::string_view last_line(std::string_view text) {
  const size_t end = text.find_last_not_of(" \r\n\t");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  return text.substr(text.rfind('\n') + 1);
}

using Judgement = std::pair<SandboxVerdict, std::string>;

Judgement judge_signal(int signal, double cpu_seconds, const SandboxLimits& limits) {
  if (signal == SIGXCPU || (signal == SIGKILL && cpu_seconds >= limits.cpu_seconds))
    return {SandboxVerdict::kTimedOut,
            fmt::format("used more than {} s of processor time", limits.cpu_seconds)};
  if (signal == SIGKILL)
    return {SandboxVerdict::kOutOfMemory, "killed by the system, which may be short of memory"};
  return {SandboxVerdict::kFailed,
          fmt::format("ended by signal {} ({})", signal,
                      ::sigabbrev_np(signal) ? ::sigabbrev_np(signal) : "unknown")};
}

Judgement judge_exit(int status, std::string_view output, bool finished,
                     const SandboxLimits& limits) {
  if (status == 0 && finished) return {SandboxVerdict::kPassed, ""};
  if (status == 0) return {SandboxVerdict::kFailed, "exited before its test ended"};
  const std::string_view line = last_line(output);
  if (line.starts_with("MemoryError"))
    return {SandboxVerdict::kOutOfMemory,
            fmt::format("needed more than {} MiB", limits.memory_bytes >> 20)};
  return {SandboxVerdict::kFailed,
          line.empty() ? fmt::format("exit status {}", status) : printable(line, kMaxReason)};
}

Judgement judge(const Observation& seen, const ConfinedProcess::End& end, bool finished,
                const SandboxLimits& limits) {
  if (seen.too_loud)
    return {SandboxVerdict::kFailed,
            fmt::format("printed more than {} bytes", limits.output_bytes)};
  if (seen.too_slow)
    return {SandboxVerdict::kTimedOut, fmt::format("ran longer than {} s", limits.wall_seconds)};
  if (WIFSIGNALED(end.status)) return judge_signal(WTERMSIG(end.status), end.cpu_seconds, limits);
  return judge_exit(WEXITSTATUS(end.status), seen.output, finished, limits);
}

// Valid UTF-8 of at most so many bytes.
std::string readable(std::string text, size_t most) {
  text.resize(std::min(text.size(), most));
  std::string valid;
  drain_valid_utf8(text, valid);
  return valid;
}

}  // namespace

Result<PythonSandbox> PythonSandbox::create(const SandboxLimits& limits) {
  if (!(limits.wall_seconds > 0) || limits.cpu_seconds <= 0 || limits.memory_bytes == 0)
    return fail(ErrorCode::kInvalidArgument, "limits must be above 0", "sandbox");
  SUTURE_ASSIGN_OR_RETURN(std::filesystem::path interpreter, find_interpreter());
  SUTURE_ASSIGN_OR_RETURN(std::vector<sock_filter> filter, make_sandbox_filter());
  PythonSandbox sandbox(std::move(interpreter), limits, std::move(filter));
  SUTURE_RETURN_IF_ERROR(sandbox.try_walls());
  return sandbox;
}

Status PythonSandbox::try_walls() const {
  SUTURE_ASSIGN_OR_RETURN(const SandboxResult tried, run(R"(
import os, socket
def must_be_refused(action):
    try:
        action()
    except PermissionError:
        return
    raise SystemExit("a wall of the sandbox does not hold")
must_be_refused(lambda: socket.socket())
must_be_refused(lambda: os.fork())
must_be_refused(lambda: os.open("/dev/null", os.O_WRONLY))
)"));
  if (tried.verdict == SandboxVerdict::kPassed) return {};
  return fail(ErrorCode::kUnsupported, "programs cannot be confined here: " + tried.reason,
              interpreter_.string(), "evaluate code on Linux 5.11 or later, with python3");
}

Result<SandboxResult> PythonSandbox::run(std::string_view program) const {
  if (program.size() > kMaxProgramBytes)
    return SandboxResult{SandboxVerdict::kFailed, "the program is longer than 1 MiB", {}, 0};
  SUTURE_ASSIGN_OR_RETURN(const std::string password, make_password());
  const std::string judged =
      fmt::format("{}\n__import__(\"os\").write({}, b\"{}\")\n", program, kVerdictFd, password);
  const auto start = Clock::now();
  SUTURE_ASSIGN_OR_RETURN(
      ConfinedProcess process,
      ConfinedProcess::start(
          {interpreter_.string(), judged, limits_.cpu_seconds, limits_.memory_bytes}, filter_));
  Observation seen = observe(process, limits_);
  SUTURE_ASSIGN_OR_RETURN(const ConfinedProcess::End end, process.wait());
  std::string said;
  drain(process.verdict(), said, password.size());
  SandboxResult result;
  std::tie(result.verdict, result.reason) = judge(seen, end, said == password, limits_);
  result.output = readable(std::move(seen.output), limits_.output_bytes);
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

std::string_view verdict_name(SandboxVerdict verdict) {
  switch (verdict) {
    case SandboxVerdict::kPassed: return "passed";
    case SandboxVerdict::kFailed: return "failed";
    case SandboxVerdict::kTimedOut: return "timed_out";
    case SandboxVerdict::kOutOfMemory: return "out_of_memory";
  }
  return "failed";
}

}  // namespace suture
