#include "bus/liveness.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace suture {
namespace {

// Looks so much further apart than they should be tell of the watcher, not of the peer: the whole
// launch was stopped, or the machine slept.
constexpr int kMissedLooks = 5;

// Of all threads of a process, those included that have ended.
std::optional<uint64_t> processor_ns(pid_t pid) {
  clockid_t clock = {};
  timespec used = {};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0)
    return std::nullopt;
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

}  // namespace

Result<char> parse_process_state(std::string_view stat) {
  // "<pid> (<name>) <state> <numbers...>": the name may hold blanks and brackets itself, what
  // follows it cannot.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || stat.size() < name_end + 3 ||
      stat[name_end + 1] != ' ') {
    return fail(ErrorCode::kCorrupt, "process state is not in the expected form");
  }
  return stat[name_end + 2];
}

Result<char> read_process_state(pid_t pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return fail_errno("cannot read process state", errno, path);
  std::array<char, 512> text = {};  // longer than the name and the state
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return fail_errno("cannot read process state", errno, path);
  return parse_process_state({text.data(), static_cast<size_t>(size)});
}

Result<LivenessLook> look_at_process(pid_t pid, std::chrono::steady_clock::time_point at,
                                     std::optional<uint64_t> activity) {
  SUTURE_ASSIGN_OR_RETURN(const char state, read_process_state(pid));
  if (!activity) activity = processor_ns(pid);
  return LivenessLook{at, state == 'T', activity};
}

LivenessVerdict Liveness::observe(const LivenessLook& look) {
  const auto previous = std::exchange(previous_, look);
  if (!previous) return LivenessVerdict::kAlive;
  const auto gap = look.at - previous->at;
  if (gap > kMissedLooks * look_interval_) {
    still_for_ = {};
    return LivenessVerdict::kAlive;
  }
  if (look.stopped && previous->stopped) return LivenessVerdict::kStopped;
  const bool still = look.progress && look.progress == previous->progress;
  still_for_ = still ? still_for_ + gap : std::chrono::steady_clock::duration{};
  return still && still_for_ >= hung_after_ ? LivenessVerdict::kHung : LivenessVerdict::kAlive;
}

}  // namespace suture
