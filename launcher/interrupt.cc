#include "launcher/interrupt.h"

#include <poll.h>
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
std::atomic<SecondInterrupt> on_second = SecondInterrupt::kExit;
std::atomic<bool> was_terminated = false;
std::atomic<bool> noticed = false;  // a second one, with kNotice

void wake() {
  const uint64_t one = 1;
  static_cast<void>(::write(wake_eventfd.load(), &one, sizeof one));
}

void on_signal(int signal_number) {
  std::atomic<bool>* flag = interrupted_flag.load();
  const bool second = flag == nullptr || flag->exchange(true);
  const SecondInterrupt then = on_second.load();
  if (second && then == SecondInterrupt::kIgnore && signal_number == SIGINT) return;
  if (second && then == SecondInterrupt::kNotice && !noticed.exchange(true)) return wake();
  if (second) ::_exit(128 + signal_number);
  was_terminated.store(signal_number != SIGINT);
  wake();
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // Who starts us with nohup wants us to outlive the terminal.
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard(std::atomic<bool>& flag, SecondInterrupt second) {
  interrupted_flag.store(&flag);
  on_second.store(second);
  was_terminated.store(false);
  noticed.store(false);
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

bool InterruptGuard::wait_again(std::chrono::milliseconds slice) const {
  pollfd waited = {wake_eventfd.load(), POLLIN, 0};
  return ::poll(&waited, 1, static_cast<int>(slice.count())) > 0;
}

int InterruptGuard::wake_fd() const { return wake_eventfd.load(); }

void InterruptGuard::reset() {
  if (!interrupted_flag.load()->load()) return;
  wait();  // the handler sets the flag before it writes
  interrupted_flag.load()->store(false);
}

bool InterruptGuard::terminated() const { return was_terminated.load(); }

}  // namespace suture
