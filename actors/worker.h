// A model process: redeems the ticket of its launcher, loads its model and serves until the
// launcher is gone.
#pragma once

#include "base/error.h"

namespace suture {

// Returns when the launcher has let go of it; an error if it could not join.
Status run_worker(int ticket_fd);

}  // namespace suture
