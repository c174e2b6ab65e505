#include "launcher/eval/arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace suture {
namespace {

constexpr std::array<std::pair<ArmKind, std::string_view>, 6> kNames = {{
    {ArmKind::kMasterAlone, "alone"},
    {ArmKind::kReadsAll, "read-all"},
    {ArmKind::kSlaveAlone, "slave"},
    {ArmKind::kHandOff, "hand-off"},
    {ArmKind::kStitched, "stitched"},
    {ArmKind::kShuffled, "shuffled"},
}};

bool is_prefix_slave(const ModelSpec& model) { return model.is_slave_at(SlavePosition::kPrefix); }

}  // namespace

std::string_view arm_kind_name(ArmKind kind) {
  const auto found = std::ranges::find(kNames, kind, &std::pair<ArmKind, std::string_view>::first);
  return found->second;
}

Result<std::vector<ArmKind>> parse_arms(const std::vector<std::string>& names) {
  std::vector<ArmKind> kinds;
  for (const auto& entry : kNames) {
    const bool wanted = std::ranges::any_of(
        names, [&entry](const std::string& text) { return text == entry.second || text == "all"; });
    if (wanted) kinds.push_back(entry.first);
  }
  for (const std::string& text : names) {
    const bool known = text == "all" || std::ranges::any_of(kNames, [&text](const auto& entry) {
                         return entry.second == text;
                       });
    if (!known)
      return fail(ErrorCode::kInvalidArgument, fmt::format("there is no arm '{}'", text), "--arms",
                  "use alone, read-all, slave, hand-off, stitched, shuffled or all");
  }
  return kinds;
}

std::string arm_name(const Arm& arm, const LaunchSpec& topology) {
  std::string name;
  switch (arm.kind) {
    case ArmKind::kMasterAlone: name = "master alone"; break;
    case ArmKind::kReadsAll: name = "master that read everything"; break;
    case ArmKind::kSlaveAlone:
      name = fmt::format("{} alone", topology.models[arm.slave].name);
      break;
    case ArmKind::kHandOff: name = "text hand-off"; break;
    case ArmKind::kStitched: name = "stitched"; break;
    case ArmKind::kShuffled: name = "stitched, another item's message"; break;
  }
  return arm.gain ? fmt::format("{}, gain {}", name, *arm.gain) : name;
}

bool has_prefix_slaves(const LaunchSpec& topology) {
  return std::ranges::any_of(topology.models, is_prefix_slave);
}

bool answer_alike(const ModelSpec& a, const ModelSpec& b) {
  return a.path == b.path && a.system == b.system;
}

std::vector<size_t> distinct_slaves(const LaunchSpec& topology) {
  std::vector<size_t> distinct;
  for (size_t i = 0; i < topology.models.size(); ++i) {
    const ModelSpec& model = topology.models[i];
    const bool known = std::ranges::any_of(
        distinct, [&](size_t other) { return answer_alike(topology.models[other], model); });
    if (model.is_slave() && !known) distinct.push_back(i);
  }
  return distinct;
}

std::vector<Arm> arms_of(const LaunchSpec& topology, const std::vector<ArmKind>& kinds,
                         const std::vector<double>& gains) {
  std::vector<std::optional<double>> sweep(gains.begin(), gains.end());
  if (sweep.empty()) sweep.emplace_back();
  const std::vector<size_t> slaves = distinct_slaves(topology);
  std::vector<Arm> arms;
  for (const ArmKind kind : kinds) {
    if (kind != ArmKind::kMasterAlone && slaves.empty()) continue;
    if (kind == ArmKind::kReadsAll && !has_prefix_slaves(topology)) continue;
    if (kind == ArmKind::kSlaveAlone) {
      // One that is the master's model would be the master that read everything.
      for (const size_t slave : slaves)
        if (topology.models[slave].path != topology.master().path)
          arms.push_back({.kind = kind, .slave = slave});
    } else if (kind == ArmKind::kStitched || kind == ArmKind::kShuffled) {
      for (const auto& gain : sweep) arms.push_back({.kind = kind, .gain = gain});
    } else {
      arms.push_back({.kind = kind});
    }
  }
  return arms;
}

LaunchSpec alone_spec(const LaunchSpec& topology, size_t model) {
  LaunchSpec alone = topology;
  ModelSpec one = topology.models[model];
  if (!one.system) one.system = topology.master().system;
  one.role = Role::kMaster;
  one.fusion = {};
  one.on_failure = {};
  if (model != topology.master_index()) one.documents.clear();
  alone.models = {std::move(one)};
  return alone;
}

LaunchSpec arm_spec(const LaunchSpec& topology, const Arm& arm) {
  if (arm.kind == ArmKind::kSlaveAlone) return alone_spec(topology, arm.slave);
  if (arm.kind != ArmKind::kStitched && arm.kind != ArmKind::kShuffled)
    return alone_spec(topology, topology.master_index());
  LaunchSpec spec = topology;
  for (ModelSpec& model : spec.models) {
    if (is_prefix_slave(model)) {
      model.documents.clear();
      model.documents_per_request = true;
    }
    if (!model.is_slave() || !arm.gain) continue;
    model.fusion.gain = *arm.gain;
    model.fusion.layer_gain.clear();
  }
  return spec;
}

}  // namespace suture
