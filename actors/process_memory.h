// Memory of this process as the kernel counts it.
#pragma once

#include <cstdint>

namespace suture {

// Resident set size in bytes, shared pages included; 0 if /proc cannot be read.
int64_t resident_bytes();

}  // namespace suture
