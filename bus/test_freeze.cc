#include "bus/test_freeze.h"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace suture {
namespace {

// How often the tracer looks for killed threads: nothing that could be waited for tells of them.
constexpr auto kReapInterval = std::chrono::milliseconds(5);

// Of a process that lives; empty once it is gone.
std::set<pid_t> threads_of(pid_t pid) {
  std::set<pid_t> threads;
  std::error_code gone;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), gone))
    threads.insert(static_cast<pid_t>(std::atoi(entry.path().filename().c_str())));
  return threads;
}

Status stop_thread(pid_t pid, pid_t thread) {
  int status = 0;
  const bool stopped = ::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0 &&
                       ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 &&
                       ::waitpid(thread, &status, __WALL) == thread;
  if (stopped || errno == ESRCH) return {};  // or ended since it was listed
  return fail_errno("cannot trace", errno, fmt::format("thread {} of process {}", thread, pid));
}

// All threads of `pid`, those included that others started meanwhile.
Result<std::set<pid_t>> stop_threads(pid_t pid) {
  std::set<pid_t> stopped;
  while (true) {
    const std::set<pid_t> threads = threads_of(pid);
    if (threads.empty())
      return fail(ErrorCode::kNotFound, fmt::format("no process {} to freeze", pid));
    if (threads == stopped) return stopped;
    for (const pid_t thread : threads) {
      if (stopped.contains(thread)) continue;
      SUTURE_RETURN_IF_ERROR(stop_thread(pid, thread));
      stopped.insert(thread);
    }
    std::erase_if(stopped, [&](pid_t thread) { return !threads.contains(thread); });
  }
}

// A killed process counts as ended when its tracer has waited for all its threads but the first,
// which is its parent's to wait for.
void reap_killed_threads(pid_t pid, std::set<pid_t>& threads) {
  std::erase_if(threads, [&](pid_t thread) {
    int status = 0;
    return thread != pid && ::waitpid(thread, &status, __WALL | WNOHANG) == thread &&
           (WIFEXITED(status) || WIFSIGNALED(status));
  });
}

// The end of this thread is what thaws the process: the system detaches whatever it traces.
void trace(const std::stop_token& stop, pid_t pid, std::promise<Status>& frozen) {
  auto threads = stop_threads(pid);
  frozen.set_value(threads ? Status() : Status(tl::unexpected<Error>(threads.error())));
  if (!threads) return;
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any wake;
  while (!wake.wait_for(lock, stop, kReapInterval, [&] { return stop.stop_requested(); }))
    reap_killed_threads(pid, *threads);
}

}  // namespace

Result<FrozenProcess> freeze(pid_t pid) {
  auto frozen = std::make_shared<std::promise<Status>>();
  std::jthread tracer([pid, frozen](const std::stop_token& stop) { trace(stop, pid, *frozen); });
  SUTURE_RETURN_IF_ERROR(frozen->get_future().get());
  return FrozenProcess(std::move(tracer));
}

}  // namespace suture
