#include "fusion/rope_map.h"

#include <algorithm>

namespace suture {

Rotation StreamRotations::at(int32_t, int64_t entry) const {
  const RopeEpoch* epoch = &epochs_.front();
  for (const RopeEpoch& next : epochs_)
    if (next.first_token <= entry) epoch = &next;
  return {epoch->frequencies.data(), epoch->attention_factor};
}

OwnRotations::OwnRotations(const ModelConfig& config) : layer_rules_(config.layer_rules) {
  for (const RopeSchedule& rope : config.ropes)
    tables_.push_back(rope_table(rope, config.head_dim, /*epoch=*/0));
}

Rotation OwnRotations::at(int32_t layer, int64_t) const {
  const LayerRule& rule = layer_rules_[static_cast<size_t>(layer)];
  const RopeTable& table = tables_[static_cast<size_t>(rule.rope)];
  return {table.frequencies.data(), table.attention_factor};
}

bool same_rotation(const ModelConfig& master, const StreamInfo& slave) {
  if (master.rope_pairing != slave.rope_pairing || slave.rope_epochs.size() != 1) return false;
  const RopeEpoch& only = slave.rope_epochs.front();
  return std::ranges::all_of(master.ropes, [&](const RopeSchedule& rope) {
    const RopeTable table = rope_table(rope, master.head_dim, /*epoch=*/0);
    return table.frequencies == only.frequencies && table.attention_factor == only.attention_factor;
  });
}

}  // namespace suture
