// A model process: redeems the ticket of its launcher, loads its model and serves until the
// launcher is gone.
#pragma once

#include "base/error.h"

namespace suture {

// The exit status of a worker for which no memory was left, whatever it was doing.
inline constexpr int kExitOutOfMemory = 77;

// Returns when the launcher has let go of it; an error if it could not join.
Status run_worker(int ticket_fd);

}  // namespace suture
