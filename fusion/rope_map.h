// How two models rotate their K rows, and whether rows of one can be used by the other as they lie
// (design §4). Where they cannot, they are rotated anew (kernels/kv_map.h) with these tables.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "bus/stream_info.h"
#include "fusion/merge_plan.h"
#include "kernels/rope_schedule.h"
#include "models/model_config.h"

namespace suture {

// A table of one model; two of one model are the same table if they share the frequencies' address.
struct Rotation {
  const float* frequencies = nullptr;  // [head_dim / 2] radians per position
  float attention_factor = 1;

  bool operator==(const Rotation&) const = default;
};

// The rotation of each row of one model, by the layer and the RoPE epoch of the row. Tables are
// made when they are first asked for, and stay.
class Rotations {
 public:
  explicit Rotations(const ModelConfig& config);
  explicit Rotations(const StreamInfo& info);

  Rotation at(int32_t layer, int64_t epoch);

 private:
  int32_t head_dim_;
  std::vector<RopeSchedule> ropes_;
  std::vector<int32_t> layer_ropes_;                         // [n_layers] index into ropes_
  std::map<std::pair<int32_t, int64_t>, RopeTable> tables_;  // (rope, epoch)
};

// Whether the stream's rows are rotated by the rules of the model's own, layer for layer as mapped
// (entries below 0 have no partner), up to a constant shift of positions, for which a turned query
// makes up.
bool same_rotation(const ModelConfig& master, const StreamInfo& slave,
                   std::span<const int32_t> layer_map, SlavePosition position);

}  // namespace suture
