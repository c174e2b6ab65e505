// What a finished request reports, as plain data: the rows of the table and of the trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace suture {

// One process's part in one request.
struct ProcessFigures {
  std::string name;
  std::string role;           // "master", "slave"
  int64_t prompt_tokens = 0;  // read now
  int64_t reused_tokens = 0;  // whose K/V were there already
  double prefill_seconds = 0;
  double projection_seconds = 0;  // of these and decode_seconds: mapping rows by a projector
  int64_t decoded_tokens = 0;
  double decode_seconds = 0;
  int64_t bus_waits = 0;  // times the process waited for another one's K/V
  double bus_wait_seconds = 0;
  int64_t kv_bytes_published = 0;
  int64_t kv_bytes_read = 0;
  int64_t resident_bytes = 0;  // resident set size at the end
  int64_t lazily_built = 0;    // things made on first use; none after a warm-up

  // Adds the work of another part of the same process; memory is the later of the two.
  void add(const ProcessFigures& more) {
    prompt_tokens += more.prompt_tokens;
    reused_tokens += more.reused_tokens;
    prefill_seconds += more.prefill_seconds;
    projection_seconds += more.projection_seconds;
    decoded_tokens += more.decoded_tokens;
    decode_seconds += more.decode_seconds;
    bus_waits += more.bus_waits;
    bus_wait_seconds += more.bus_wait_seconds;
    kv_bytes_published += more.kv_bytes_published;
    kv_bytes_read += more.kv_bytes_read;
    resident_bytes = more.resident_bytes;
    lazily_built += more.lazily_built;
  }
};

// Adds one request's figures to those of earlier ones, process by process.
inline void add_figures(const std::vector<ProcessFigures>& more, std::vector<ProcessFigures>& all) {
  for (const ProcessFigures& figures : more) {
    const auto found = std::ranges::find(all, figures.name, &ProcessFigures::name);
    if (found == all.end())
      all.push_back(figures);
    else
      found->add(figures);
  }
}

// Something a process did for a while.
struct TraceSpan {
  std::string process;
  std::string name;
  int64_t start_ns = 0;  // CLOCK_MONOTONIC, one clock for all processes of a host
  int64_t duration_ns = 0;
};

}  // namespace suture
