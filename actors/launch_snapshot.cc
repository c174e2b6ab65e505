#include "actors/launch_snapshot.h"

#include "actors/process_memory.h"
#include "actors/trace_log.h"

namespace suture {
namespace {

ProcessState state_of(OwnerWork work) {
  switch (work) {
    case OwnerWork::kReading: return ProcessState::kReading;
    case OwnerWork::kGenerating: return ProcessState::kGenerating;
    case OwnerWork::kFollowing: return ProcessState::kFollowing;
    case OwnerWork::kIdle: break;
  }
  return ProcessState::kIdle;
}

}  // namespace

std::string_view process_state_name(ProcessState state) {
  switch (state) {
    case ProcessState::kJoining: return "joining";
    case ProcessState::kIdle: return "idle";
    case ProcessState::kReading: return "reading";
    case ProcessState::kGenerating: return "generating";
    case ProcessState::kFollowing: return "following";
    case ProcessState::kRestarting: return "restarting";
    case ProcessState::kLost: return "lost";
  }
  return "unknown";
}

ProcessSnapshot joining_process(const ModelSpec& model) {
  ProcessSnapshot process;
  process.name = model.name;
  process.role = model.role;
  process.device = model.device;
  return process;
}

void look_at_joined(const Control& control, ProcessSnapshot& process) {
  process.slab = look_at(control);
  process.state = state_of(process.slab.work);
  process.resident_bytes = process.pid == 0 ? resident_bytes() : resident_bytes(process.pid);
}

LaunchSnapshot joining_snapshot(const LaunchSpec& spec) {
  LaunchSnapshot snapshot;
  snapshot.time_ns = monotonic_ns();
  snapshot.started_ns = snapshot.time_ns;
  for (const ModelSpec& model : spec.models) snapshot.processes.push_back(joining_process(model));
  return snapshot;
}

}  // namespace suture
