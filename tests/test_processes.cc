#include "tests/test_processes.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace suture {

bool process_ends(pid_t pid) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) return errno == ESRCH;
  pollfd poll_fd{pidfd.get(), POLLIN, 0};
  return ::poll(&poll_fd, 1, 60'000) == 1;
}

}  // namespace suture
