#include "fusion/rope_map.h"

namespace suture {
namespace {

std::vector<int32_t> layer_ropes_of(const ModelConfig& config) {
  std::vector<int32_t> ropes;
  for (const LayerRule& rule : config.layer_rules) ropes.push_back(rule.rope);
  return ropes;
}

std::vector<int32_t> layer_ropes_of(const StreamInfo& info) {
  if (!info.layer_ropes.empty()) return info.layer_ropes;
  return std::vector<int32_t>(static_cast<size_t>(info.shape.n_layers), 0);
}

bool depends_on_length(const RopeSchedule& rope) { return rope_epoch(rope, INT32_MAX) != 0; }

// Rules that do not depend on the length are one if their tables are, however they are written. The
// others turn two texts alike only if the texts are the same.
bool same_rule(const RopeSchedule& a, const RopeSchedule& b, int32_t head_dim,
               SlavePosition position) {
  if (depends_on_length(a) || depends_on_length(b))
    return a == b && position == SlavePosition::kAligned;
  const RopeTable table = rope_table(a, head_dim, 0);
  const RopeTable other = rope_table(b, head_dim, 0);
  return table.frequencies == other.frequencies && table.attention_factor == other.attention_factor;
}

}  // namespace

Rotations::Rotations(const ModelConfig& config)
    : head_dim_(config.head_dim), ropes_(config.ropes), layer_ropes_(layer_ropes_of(config)) {}

Rotations::Rotations(const StreamInfo& info)
    : head_dim_(info.shape.head_dim), ropes_(info.ropes), layer_ropes_(layer_ropes_of(info)) {}

Rotation Rotations::at(int32_t layer, int64_t epoch) {
  const int32_t rope = layer_ropes_[static_cast<size_t>(layer)];
  const RopeSchedule& schedule = ropes_[static_cast<size_t>(rope)];
  // The epoch serves all rules of the model; to this one it may mean less.
  const auto [found, is_new] = tables_.try_emplace({rope, rope_epoch(schedule, epoch)});
  if (is_new) found->second = rope_table(schedule, head_dim_, epoch);
  return {found->second.frequencies.data(), found->second.attention_factor};
}

bool same_rotation(const ModelConfig& master, const StreamInfo& slave,
                   std::span<const int32_t> layer_map, SlavePosition position) {
  if (master.rope_pairing != slave.rope_pairing || slave.ropes.empty()) return false;
  const std::vector<int32_t> slave_ropes = layer_ropes_of(slave);
  for (size_t layer = 0; layer < layer_map.size(); ++layer) {
    if (layer_map[layer] < 0) continue;
    const auto own = static_cast<size_t>(master.layer_rules[layer].rope);
    const auto other = static_cast<size_t>(slave_ropes[static_cast<size_t>(layer_map[layer])]);
    if (!same_rule(master.ropes[own], slave.ropes[other], master.head_dim, position)) return false;
  }
  return true;
}

}  // namespace suture
