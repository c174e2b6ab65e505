#include "launcher/interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace suture {
namespace {

// A signal handler can reach nothing but globals; both are lock-free.
std::atomic<std::atomic<bool>*> interrupted_flag = nullptr;
std::atomic<int> wake_eventfd = -1;
std::atomic<bool> ignore_second = false;
std::atomic<bool> was_terminated = false;

void on_signal(int signal_number) {
  std::atomic<bool>* flag = interrupted_flag.load();
  const bool second = flag == nullptr || flag->exchange(true);
  if (second && ignore_second.load() && signal_number == SIGINT) return;
  if (second) ::_exit(128 + signal_number);
  was_terminated.store(signal_number == SIGTERM);
  const uint64_t one = 1;
  static_cast<void>(::write(wake_eventfd.load(), &one, sizeof one));
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard(std::atomic<bool>& flag, SecondInterrupt second) {
  interrupted_flag.store(&flag);
  ignore_second.store(second == SecondInterrupt::kIgnore);
  was_terminated.store(false);
  wake_eventfd.store(::eventfd(0, EFD_CLOEXEC));
  handle(on_signal);
}

InterruptGuard::~InterruptGuard() {
  handle(SIG_DFL);
  interrupted_flag.store(nullptr);
  ::close(wake_eventfd.exchange(-1));
}

void InterruptGuard::wait() const {
  uint64_t count = 0;
  while (::read(wake_eventfd.load(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

int InterruptGuard::wake_fd() const { return wake_eventfd.load(); }

void InterruptGuard::reset() {
  if (!interrupted_flag.load()->load()) return;
  wait();  // the handler sets the flag before it writes
  interrupted_flag.load()->store(false);
}

bool InterruptGuard::terminated() const { return was_terminated.load(); }

}  // namespace suture
