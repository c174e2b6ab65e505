// What bus_bench measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/bus/clock.h"

namespace suture::bus_bench {

struct Options {
  int64_t samples = 5000;  // of each latency
  int64_t rounds = 20;     // of reading and copying
};

struct ThroughputFigures {
  uint32_t readers = 0;
  // GB/s of each reader, in the time that it runs: there may be more readers than cores.
  double read_in_place = 0;
  double read_private = 0;
  double copy = 0;
  double memcpy_shared = 0;  // from a memfd of this process
  double memcpy = 0;
};

struct Figures {
  std::vector<int> cores;  // owner's and reader's
  double clock_ns = 0;
  // The machine's own bounds.
  Spread cache_line_ns;  // one way between the two cores
  Spread futex_ns;       // FUTEX_WAKE called -> sleeper runs
  // The bus.
  Spread visible_spinning_ns;  // commit called -> reader has seen it
  Spread visible_sleeping_ns;
  Spread publish_ns;          // nobody waits
  Spread publish_waiting_ns;  // one reader sleeps
  Spread attach_ns;           // and detach
  Spread lease_ns;            // take and release
  Spread map_ns;              // of a slab, once for each owner
  std::vector<ThroughputFigures> throughput;
};

// `progress` is told what comes next.
Figures measure(const Options& options, const std::function<void(const std::string&)>& progress);

std::string table(const Figures& figures);
std::string json(const Figures& figures);

}  // namespace suture::bus_bench
