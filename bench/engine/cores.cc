#include "bench/engine/cores.h"

#include <fmt/format.h>
#include <sched.h>

namespace suture {

Result<std::vector<int>> first_cores(int n) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE && static_cast<int>(cores.size()) < n; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &allowed)) cores.push_back(core);
  if (n < 1 || static_cast<int>(cores.size()) < n)
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} threads, a core for each", n),
                "--threads", fmt::format("use 1 to {}", CPU_COUNT(&allowed)));
  return cores;
}

}  // namespace suture
