// Starts a launch for a user who watches: what it needs, what is free, what happens.
#pragma once

#include <memory>

#include "actors/launch.h"
#include "actors/launch_spec.h"
#include "base/error.h"

namespace suture {

// Says on standard error what memory the topology needs beside what is free, and refuses with
// kOutOfMemory what cannot fit; then starts it and reports each process that has loaded.
Result<std::unique_ptr<Launch>> start_launch(const LaunchSpec& spec, bool trace);

}  // namespace suture
