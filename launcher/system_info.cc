#include "launcher/system_info.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace suture {
namespace {

std::string content_of(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::optional<uint64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// What a control group (version 2) leaves: its limit less what is used, page cache not counted.
std::optional<uint64_t> control_group_bytes() {
  const auto limit = leading_number(content_of("/sys/fs/cgroup/memory.max"));
  const auto used = leading_number(content_of("/sys/fs/cgroup/memory.current"));
  if (!limit || !used) return std::nullopt;
  const std::string detail = content_of("/sys/fs/cgroup/memory.stat");
  const size_t cached = detail.find("inactive_file ");
  const uint64_t reclaimable =
      cached == std::string::npos
          ? 0
          : leading_number(std::string_view(detail).substr(cached + 14)).value_or(0);
  const uint64_t held = *used - std::min(*used, reclaimable);
  return *limit - std::min(*limit, held);
}

}  // namespace

std::optional<uint64_t> meminfo_bytes(std::string_view text, std::string_view field) {
  const std::string start = std::string(field) + ":";
  const size_t at = text.starts_with(start) ? 0 : text.find("\n" + start);
  if (at == std::string_view::npos) return std::nullopt;
  const size_t value = at + start.size() + (text[at] == '\n' ? 1 : 0);
  const auto kilobytes = leading_number(text.substr(value));
  if (!kilobytes) return std::nullopt;
  return *kilobytes * 1024;
}

uint64_t available_memory_bytes() {
  const auto system = meminfo_bytes(content_of("/proc/meminfo"), "MemAvailable");
  const uint64_t available = system.value_or(std::numeric_limits<uint64_t>::max());
  return std::min(available, control_group_bytes().value_or(available));
}

int allowed_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

}  // namespace suture
