#include "base/available_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

namespace suture {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

uint64_t available_on_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    uint64_t kib = 0;
    if (!(file >> kib)) break;
    if (name == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return kUnknown;
}

// The limit as a whole, not what is left of it: usage counts page cache that the kernel would drop.
uint64_t control_group_limit() {
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t bytes = 0;
    if (std::ifstream(path) >> bytes) return bytes;
  }
  return kUnknown;
}

uint64_t available_memory() { return std::min(available_on_machine(), control_group_limit()); }

}  // namespace

Status check_available_memory(const std::string& name, uint64_t bytes, std::string where,
                              std::string remedy) {
  if (bytes <= available_memory()) return {};
  return no_memory(name, bytes, std::move(where), std::move(remedy));
}

tl::unexpected<Error> no_memory(const std::string& name, uint64_t bytes, std::string where,
                                std::string remedy) {
  return fail(ErrorCode::kOutOfMemory,
              fmt::format("{} needs {:.1f} MiB of memory, {:.1f} MiB are available", name,
                          static_cast<double>(bytes) / (1 << 20),
                          static_cast<double>(available_memory()) / (1 << 20)),
              std::move(where), std::move(remedy));
}

}  // namespace suture
