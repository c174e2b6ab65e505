// A running launch as somebody sees who watches it, as plain data.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/launch_spec.h"
#include "bus/slab_figures.h"

namespace suture {

enum class ProcessState : uint8_t {
  kJoining,
  kIdle,
  kReading,
  kGenerating,
  kFollowing,
  kRestarting,
  kLost,
};

// "joining", "idle", "reading", "generating", "following", "restarting", "lost".
std::string_view process_state_name(ProcessState state);

struct ProcessSnapshot {
  std::string name;
  Role role = Role::kMaster;
  std::string device;
  pid_t pid = 0;  // 0 with placement = "in-process", and while it does not run
  ProcessState state = ProcessState::kJoining;
  std::string why;             // it has ended
  int64_t resident_bytes = 0;  // pages of a model file count in every process that maps it
  SlabFigures slab;            // zeros while it does not run
};

struct LaunchSnapshot {
  int64_t time_ns = 0;                     // CLOCK_MONOTONIC
  int64_t started_ns = 0;                  // the same clock
  int64_t requests = 0;                    // that run or wait
  int64_t waiting = 0;                     // of these
  std::vector<ProcessSnapshot> processes;  // in the order of the topology
};

ProcessSnapshot joining_process(const ModelSpec& model);
// Fills in what a process does that has joined; `process.pid` is set.
void look_at_joined(const Control& control, ProcessSnapshot& process);

// All processes joining: what there is to see before a launch has started.
LaunchSnapshot joining_snapshot(const LaunchSpec& spec);

}  // namespace suture
