// System calls that a sandboxed program may not make, as a seccomp filter: unlike namespaces it
// needs no privilege and works inside containers.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "base/error.h"

namespace suture {

// Refused, with EPERM: network and all other sockets, new processes (threads are allowed), signals
// to others, new files and any change to existing ones, mounts, namespaces, shared memory that
// outlives the process, more resources than the limits give. Reading files stays possible.
// kUnsupported on processors whose system call numbers are not known here.
Result<std::vector<sock_filter>> make_sandbox_filter();

// From here on this thread and its children obey the filter; nothing takes it back. Only system
// calls, so it may run between fork and exec. False with errno if the kernel refuses.
bool enter_sandbox_filter(const std::vector<sock_filter>& filter);

}  // namespace suture
