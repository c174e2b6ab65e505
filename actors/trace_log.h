// Spans that one process records while it works on a request.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/figures.h"

namespace suture {

// CLOCK_MONOTONIC, which all processes of a host share.
inline int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double seconds_since(int64_t start_ns) {
  return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
}

// Used by one thread at a time.
class TraceLog {
 public:
  TraceLog(std::string process, bool enabled) : process_(std::move(process)), enabled_(enabled) {}

  void add(std::string_view name, int64_t start_ns) {
    if (enabled_)
      spans_.push_back({process_, std::string(name), start_ns, monotonic_ns() - start_ns});
  }
  std::vector<TraceSpan> take() { return std::exchange(spans_, {}); }

 private:
  std::string process_;
  bool enabled_;
  std::vector<TraceSpan> spans_;
};

}  // namespace suture
