// What a run of bus_torture found.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/torture/board.h"

namespace suture::torture {

// What the launch holds while it rests between two rounds.
struct Footprint {
  int64_t parent_fds = 0;
  int64_t mappings = 0;  // of the bus's memory, in all processes
  int64_t pss_kib = 0;   // of all processes
};

struct Report {
  uint64_t seed = 0;
  int64_t look_interval_ms = 0;
  uint64_t schedule = 0;  // its fingerprint
  double seconds = 0;

  int64_t rounds = 0;
  int64_t kills = 0, early_kills = 0, stops = 0, pauses = 0;
  int64_t owner_faults = 0, reader_faults = 0;
  int64_t pauses_taken_for_stops = 0;  // the machine kept us from continuing it for two looks
  int64_t leaked_blocks = 0, hangs = 0, unexpected_ends = 0;

  // Milliseconds from the signal.
  std::vector<double> detect_ms;          // SIGKILL, to the broker's report
  std::vector<double> stop_detect_ms;     // SIGSTOP, to the broker's report
  std::vector<double> owner_informed_ms;  // an owner's SIGKILL, to the last reader that knew
  std::vector<double> recovered_ms;       // to the first rows of, or read by, the successor

  Footprint before, after;
  uint64_t wrong_bytes = 0, strange_errors = 0;
  uint64_t streams = 0, forks = 0, fills = 0, commits = 0;
  uint64_t attaches = 0, rows = 0, tokens = 0, stale_tries = 0;
  std::array<uint64_t, kErrorCodes> errors = {};

  void take_counts(const CountsData& counts);
  bool sound() const;
  std::string json() const;   // one line
  std::string table() const;  // for people
};

}  // namespace suture::torture
