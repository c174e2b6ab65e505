// Starts a launch for a user who watches: what it needs, what is free, what happens.
#pragma once

#include <memory>

#include "actors/launch.h"
#include "actors/launch_spec.h"
#include "base/error.h"
#include "launcher/launch_memory.h"

namespace suture {

struct StartOptions {
  bool trace = false;
  bool force = false;  // although the memory does not suffice
};

struct StartedLaunch {
  LaunchMemory memory;  // as it was stated before the start
  std::unique_ptr<Launch> launch;
};

// Says on standard error what memory each part of the topology needs beside what is free, and
// refuses with kOutOfMemory what cannot fit, unless it is forced; then starts it and reports each
// process that has loaded.
Result<StartedLaunch> start_launch(const LaunchSpec& spec, const StartOptions& options);

}  // namespace suture
