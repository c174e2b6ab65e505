#include "launcher/launch_start.h"

#include <fmt/format.h>

#include <cstdio>

#include "launcher/launch_memory.h"
#include "launcher/system_info.h"

namespace suture {

Result<std::unique_ptr<Launch>> start_launch(const LaunchSpec& spec, bool trace) {
  SUTURE_ASSIGN_OR_RETURN(const auto needs, launch_memory(spec));
  const uint64_t available = available_memory_bytes();
  fmt::print(stderr, "{}: {} processes, {} MB of memory needed, {} MB free\n",
             spec.topology_path.filename().string(), spec.models.size(),
             total_bytes(needs) / 1'000'000, available / 1'000'000);
  SUTURE_RETURN_IF_ERROR(check_memory(needs, available, spec));
  LaunchOptions options;
  options.trace = trace;
  options.on_progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  return Launch::start(spec, options);
}

}  // namespace suture
