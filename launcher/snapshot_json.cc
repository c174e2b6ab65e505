#include "launcher/snapshot_json.h"

#include <fmt/format.h>

#include <array>
#include <string>

namespace suture {
namespace {

using nlohmann::json;

constexpr std::array kStates = {ProcessState::kJoining,   ProcessState::kIdle,
                                ProcessState::kReading,   ProcessState::kGenerating,
                                ProcessState::kFollowing, ProcessState::kRestarting,
                                ProcessState::kLost};

json to_json(const StreamFigures& stream) {
  return {{"slot", stream.slot},
          {"request", stream.request},
          {"open", stream.state == StreamState::kOpen},
          {"tokens", stream.tokens},
          {"blocks", stream.blocks},
          {"readers", stream.readers}};
}

json to_json(const SlabFigures& slab) {
  json streams = json::array();
  for (const StreamFigures& stream : slab.streams) streams.push_back(to_json(stream));
  return {{"request", slab.request},
          {"tokens_computed", slab.tokens_computed},
          {"tokens_generated", slab.tokens_generated},
          {"waits", slab.waits},
          {"wait_ns", slab.wait_ns},
          {"lazily_built", slab.lazily_built},
          {"heartbeats", slab.heartbeats},
          {"blocks", slab.blocks},
          {"blocks_used", slab.blocks_used},
          {"blocks_leased", slab.blocks_leased},
          {"block_bytes", slab.block_bytes},
          {"payload_bytes", slab.payload_bytes},
          {"streams", std::move(streams)}};
}

StreamFigures stream_from(const json& value) {
  StreamFigures stream;
  value.at("slot").get_to(stream.slot);
  value.at("request").get_to(stream.request);
  stream.state = value.at("open").get<bool>() ? StreamState::kOpen : StreamState::kClosing;
  value.at("tokens").get_to(stream.tokens);
  value.at("blocks").get_to(stream.blocks);
  value.at("readers").get_to(stream.readers);
  return stream;
}

SlabFigures slab_from(const json& value) {
  SlabFigures slab;
  value.at("request").get_to(slab.request);
  value.at("tokens_computed").get_to(slab.tokens_computed);
  value.at("tokens_generated").get_to(slab.tokens_generated);
  value.at("waits").get_to(slab.waits);
  value.at("wait_ns").get_to(slab.wait_ns);
  value.at("lazily_built").get_to(slab.lazily_built);
  value.at("heartbeats").get_to(slab.heartbeats);
  value.at("blocks").get_to(slab.blocks);
  value.at("blocks_used").get_to(slab.blocks_used);
  value.at("blocks_leased").get_to(slab.blocks_leased);
  value.at("block_bytes").get_to(slab.block_bytes);
  value.at("payload_bytes").get_to(slab.payload_bytes);
  for (const json& stream : value.at("streams")) slab.streams.push_back(stream_from(stream));
  return slab;
}

// An unknown word, of a newer launch, shows as idle.
ProcessState state_from(const std::string& word) {
  for (const ProcessState state : kStates)
    if (process_state_name(state) == word) return state;
  return ProcessState::kIdle;
}

ProcessSnapshot process_from(const json& value) {
  ProcessSnapshot process;
  value.at("name").get_to(process.name);
  process.role = value.at("role") == "master" ? Role::kMaster : Role::kSlave;
  value.at("device").get_to(process.device);
  value.at("pid").get_to(process.pid);
  process.state = state_from(value.at("state").get<std::string>());
  value.at("why").get_to(process.why);
  value.at("resident_bytes").get_to(process.resident_bytes);
  process.slab = slab_from(value.at("slab"));
  return process;
}

}  // namespace

nlohmann::json to_json(const LaunchSnapshot& snapshot) {
  json processes = json::array();
  for (const ProcessSnapshot& process : snapshot.processes)
    processes.push_back({{"name", process.name},
                         {"role", process.role == Role::kMaster ? "master" : "slave"},
                         {"device", process.device},
                         {"pid", process.pid},
                         {"state", process_state_name(process.state)},
                         {"why", process.why},
                         {"resident_bytes", process.resident_bytes},
                         {"slab", to_json(process.slab)}});
  return {{"time_ns", snapshot.time_ns},
          {"started_ns", snapshot.started_ns},
          {"requests", snapshot.requests},
          {"waiting", snapshot.waiting},
          {"processes", std::move(processes)}};
}

Result<LaunchSnapshot> snapshot_from_json(const nlohmann::json& value) {
  LaunchSnapshot snapshot;
  try {
    value.at("time_ns").get_to(snapshot.time_ns);
    value.at("started_ns").get_to(snapshot.started_ns);
    value.at("requests").get_to(snapshot.requests);
    value.at("waiting").get_to(snapshot.waiting);
    for (const json& process : value.at("processes"))
      snapshot.processes.push_back(process_from(process));
  } catch (const json::exception& error) {
    return fail(ErrorCode::kCorrupt, error.what(), "snapshot of a launch",
                "run the same version of suture on both sides");
  }
  return snapshot;
}

}  // namespace suture
