// What has become of each model process of a launch, pieced together from three witnesses: the
// process itself (it has joined), the broker (its connection, and that it is gone from the bus) and
// the supervisor (its exit). Plain state: the launch locks it, and does what it says.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/restart_policy.h"
#include "actors/supervisor.h"
#include "base/error.h"
#include "bus/broker.h"
#include "bus/ids.h"

namespace suture {

// A process that is gone for good: off the bus, and reaped.
struct ProcessEnd {
  std::string name;
  std::string why;
  std::optional<std::chrono::milliseconds> restart_in;  // nothing: it stays away
  std::string next;                                     // the same for people; may be empty

  std::string story() const { return next.empty() ? why : why + "; " + next; }
};

enum class MemberState : uint8_t { kStarting, kJoined, kRestarting, kGone };

struct Member {
  MemberState state = MemberState::kStarting;
  uint64_t incarnation = 0;  // the latest that was ordered
  std::string why;           // it has ended, with what is done about it
};

class Membership {
 public:
  using Clock = RestartPolicy::Clock;

  Membership(const std::vector<std::string>& names, RestartOptions restarts);

  // The number of the process of that name that is started next.
  uint64_t begin(const std::string& name);

  // False if that process is gone already: what it said comes too late. A process that could not
  // load takes part in nothing and is to be killed.
  bool joined(const Joined& joined, Clock::time_point now);

  // The broker's view. Processes that share our pid have no exit of their own.
  void connected(PeerId peer, pid_t pid);
  std::optional<ProcessEnd> disconnected(PeerId peer, const std::string& name, PeerEnd end,
                                         const std::string& detail, Clock::time_point now);
  // The supervisor's view. A process that was on the bus has ended only when it is off it: until
  // then its leases stand.
  std::optional<ProcessEnd> exited(const WorkerExit& exit, Clock::time_point now);

  bool all_joined() const;
  // All have joined at least once.
  bool complete() const { return complete_; }
  // Why the first process that ended or could not load before that did so.
  const std::optional<Error>& start_failure() const { return start_failure_; }
  const Member& member(const std::string& name) const { return members_.at(name).shown; }

 private:
  struct BusEnd {
    PeerEnd end;
    std::string detail;
  };
  struct State {
    Member shown;
    RestartPolicy policy;
    std::optional<Error> load_failure;
  };

  ProcessEnd end(const std::string& name, std::string why, Clock::time_point now);

  std::map<std::string, State> members_;
  std::map<PeerId, pid_t> on_bus_;
  std::map<pid_t, BusEnd> off_bus_;     // not reaped yet
  std::map<pid_t, WorkerExit> reaped_;  // still on the bus
  std::set<pid_t> unseen_;              // ended without having been on the bus
  uint64_t next_incarnation_ = 1;
  bool complete_ = false;
  std::optional<Error> start_failure_;
};

}  // namespace suture
