// Memory of a process as the kernel counts it.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace suture {

// Resident set size in bytes, shared pages included; 0 if /proc cannot be read.
int64_t resident_bytes();
// Of another process.
int64_t resident_bytes(pid_t pid);

}  // namespace suture
