// Watches processes that a test has made or killed.
#pragma once

#include <sys/types.h>

namespace suture {

// True once the process is gone; false if it still lives after a minute.
bool process_ends(pid_t pid);

}  // namespace suture
