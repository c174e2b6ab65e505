// For tests: a process that hangs without being stopped. All of its threads stand still, no signal
// but SIGKILL reaches them, and yet /proc calls it neither stopped nor dead.
//
//   const FrozenProcess frozen = freeze(pid).value();
#pragma once

#include <sys/types.h>

#include <thread>

#include "base/error.h"

namespace suture {

// Thaws the process when it goes, if that still lives.
class FrozenProcess {
 public:
  FrozenProcess(FrozenProcess&&) noexcept = default;
  FrozenProcess& operator=(FrozenProcess&&) noexcept = default;

 private:
  friend Result<FrozenProcess> freeze(pid_t pid);
  explicit FrozenProcess(std::jthread tracer) : tracer_(std::move(tracer)) {}

  std::jthread tracer_;  // a traced thread obeys, and waits for, the one thread that traces it
};

// Returns when the last thread of `pid`, a descendant of this process, stands still. kIo if the
// system forbids tracing.
Result<FrozenProcess> freeze(pid_t pid);

}  // namespace suture
