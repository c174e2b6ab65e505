#include "fusion/rope_map.h"

#include "bus/layout.h"

namespace suture {

namespace {

int32_t rope_of(std::span<const int32_t> layer_ropes, int32_t layer) {
  return layer_ropes.empty() ? 0 : layer_ropes[static_cast<size_t>(layer)];
}

bool follows_length(const RopeSchedule& rope) {
  return rope_epoch(rope, 1) != rope_epoch(rope, kMaxRopeEpoch);
}

bool same_tables(const RopeSchedule& a, const RopeSchedule& b, int32_t head_dim) {
  if (a == b) return true;
  if (follows_length(a) || follows_length(b)) return false;
  const RopeTable of_a = rope_table(a, head_dim, /*epoch=*/0);
  const RopeTable of_b = rope_table(b, head_dim, /*epoch=*/0);
  return of_a.frequencies == of_b.frequencies && of_a.attention_factor == of_b.attention_factor;
}

}  // namespace

Rotation StreamRotations::at(int32_t layer, int64_t epoch) {
  const int32_t rope = rope_of(layer_ropes_, layer);
  const RopeSchedule& schedule = ropes_[static_cast<size_t>(rope)];
  // The epoch serves all schedules of the stream; what it means to this one may be less.
  const auto [table, is_new] = tables_.try_emplace({rope, rope_epoch(schedule, epoch)});
  if (is_new) table->second = rope_table(schedule, head_dim_, epoch);
  return {table->second.frequencies.data(), table->second.attention_factor};
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

bool same_rotation(const ModelConfig& master, const StreamInfo& slave,
                   std::span<const int32_t> layer_map) {
  if (master.rope_pairing != slave.rope_pairing || slave.ropes.empty()) return false;
  for (size_t layer = 0; layer < layer_map.size(); ++layer) {
    if (layer_map[layer] < 0) continue;
    const RopeSchedule& own = master.ropes[static_cast<size_t>(master.layer_rules[layer].rope)];
    const auto other = static_cast<size_t>(rope_of(slave.layer_ropes, layer_map[layer]));
    if (!same_tables(own, slave.ropes[other], master.head_dim)) return false;
  }
  return true;
}

}  // namespace suture
