#include "launcher/trace.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace suture {
namespace {

using nlohmann::json;

constexpr double kNanosecondsPerMicrosecond = 1e3;  // trace events count in microseconds

// The event that gives a track its name.
json name_event(int track, const std::string& process) {
  return {{"ph", "M"}, {"name", "process_name"}, {"pid", track}, {"args", {{"name", process}}}};
}

}  // namespace

std::string trace_json(std::span<const TraceSpan> spans) {
  int64_t first_ns = spans.empty() ? 0 : spans.front().start_ns;
  for (const TraceSpan& span : spans) first_ns = std::min(first_ns, span.start_ns);
  json events = json::array();
  std::map<std::string, int> tracks;
  for (const TraceSpan& span : spans) {
    const auto [track, is_new] = tracks.emplace(span.process, static_cast<int>(tracks.size()) + 1);
    if (is_new) events.push_back(name_event(track->second, span.process));
    events.push_back(
        {{"ph", "X"},
         {"name", span.name},
         {"pid", track->second},
         {"tid", 1},
         {"ts", static_cast<double>(span.start_ns - first_ns) / kNanosecondsPerMicrosecond},
         {"dur", static_cast<double>(span.duration_ns) / kNanosecondsPerMicrosecond}});
  }
  const json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status check_trace_file(const std::filesystem::path& path) {
  if (!std::ofstream(path, std::ios::binary))
    return fail_errno("cannot write the trace", errno, path.string(), "give --trace another file");
  return {};
}

Status write_trace(const std::filesystem::path& path, std::span<const TraceSpan> spans) {
  std::ofstream file(path, std::ios::binary);
  file << trace_json(spans) << '\n';
  file.close();
  if (!file)
    return fail_errno("cannot write the trace", errno, path.string(), "give --trace another file");
  return {};
}

}  // namespace suture
