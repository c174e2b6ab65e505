// Tells stopped and hung processes from slow ones. Dead is not decided here: a pidfd says so.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace suture {

// State letter of a process as in /proc/<pid>/stat ("R", "S", "T", ...).
Result<char> parse_process_state(std::string_view stat);
Result<char> read_process_state(pid_t pid);

// What one look at a peer saw.
struct LivenessLook {
  std::chrono::steady_clock::time_point at;
  bool stopped = false;              // state T
  std::optional<uint64_t> progress;  // moves with every sign of life; nothing: unknown
};

// `activity` is what the peer's slab shows (PeerTable::activity). Before there is one, the
// processor time of the process stands in for it: loading a large model may take long, but only a
// process of which no thread runs uses none at all, since BrokerClient wakes up regularly.
Result<LivenessLook> look_at_process(pid_t pid, std::chrono::steady_clock::time_point at,
                                     std::optional<uint64_t> activity);

enum class LivenessVerdict { kAlive, kStopped, kHung };

// The history of one peer. A peer is stopped when two looks in a row found it so, and hung when its
// progress stood still for `hung_after`. However slow it is, any movement makes it alive.
class Liveness {
 public:
  Liveness(std::chrono::milliseconds look_interval, std::chrono::milliseconds hung_after)
      : look_interval_(look_interval), hung_after_(hung_after) {}

  LivenessVerdict observe(const LivenessLook& look);

 private:
  std::chrono::milliseconds look_interval_;
  std::chrono::milliseconds hung_after_;
  std::optional<LivenessLook> previous_;
  std::chrono::steady_clock::duration still_for_{};
};

}  // namespace suture
