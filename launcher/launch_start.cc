#include "launcher/launch_start.h"

#include <fmt/format.h>

#include <cstdio>

#include "launcher/system_info.h"

namespace suture {

Result<StartedLaunch> start_launch(const LaunchSpec& spec, const StartOptions& options) {
  StartedLaunch started;
  SUTURE_ASSIGN_OR_RETURN(started.memory, launch_memory(spec, available_memory_bytes()));
  fmt::print(stderr, "{}\n{}", spec.topology_path.filename().string(),
             memory_table(started.memory));
  if (const Status fits = check_memory(started.memory, spec); !fits) {
    if (!options.force) return tl::unexpected<Error>(fits.error());
    fmt::print(stderr, "warning: {}; starting all the same (--force)\n", fits.error().what);
  }
  LaunchOptions launch;
  launch.trace = options.trace;
  launch.on_progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  SUTURE_ASSIGN_OR_RETURN(started.launch, Launch::start(spec, launch));
  return started;
}

}  // namespace suture
