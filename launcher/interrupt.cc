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
std::atomic<int> wake_fd = -1;

void on_signal(int signal_number) {
  std::atomic<bool>* flag = interrupted_flag.load();
  if (flag == nullptr || flag->exchange(true)) ::_exit(128 + signal_number);
  const uint64_t one = 1;
  static_cast<void>(::write(wake_fd.load(), &one, sizeof one));
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard(std::atomic<bool>& flag) {
  interrupted_flag.store(&flag);
  wake_fd.store(::eventfd(0, EFD_CLOEXEC));
  handle(on_signal);
}

InterruptGuard::~InterruptGuard() {
  handle(SIG_DFL);
  interrupted_flag.store(nullptr);
  ::close(wake_fd.exchange(-1));
}

void InterruptGuard::wait() const {
  uint64_t count = 0;
  while (::read(wake_fd.load(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace suture
