#include "actors/process_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace suture {

namespace {

int64_t resident_bytes_in(const std::string& statm_path) {
  std::ifstream statm(statm_path);
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

int64_t resident_bytes() { return resident_bytes_in("/proc/self/statm"); }

int64_t resident_bytes(pid_t pid) { return resident_bytes_in(fmt::format("/proc/{}/statm", pid)); }

}  // namespace suture
