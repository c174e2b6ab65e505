// How two models rotate their K rows, and whether rows of one can be used by the other as they lie
// (design §4). Where they cannot, they are rotated anew (kernels/kv_map.h) with these tables.
#pragma once

#include <cstdint>
#include <vector>

#include "bus/stream_info.h"
#include "kernels/rope_schedule.h"
#include "models/model_config.h"

namespace suture {

// A table of one model; two of one model are the same table if they share the frequencies' address.
struct Rotation {
  const float* frequencies = nullptr;  // [head_dim / 2] radians per position
  float attention_factor = 1;

  bool operator==(const Rotation&) const = default;
};

// The rotation of each row of a stream, as its owner has announced it.
class StreamRotations {
 public:
  explicit StreamRotations(const StreamInfo& info) : epochs_(info.rope_epochs) {}
  Rotation at(int32_t layer, int64_t entry) const;

 private:
  std::vector<RopeEpoch> epochs_;
};

// Those of a model's own rows.
class OwnRotations {
 public:
  explicit OwnRotations(const ModelConfig& config);
  Rotation at(int32_t layer, int64_t entry) const;

 private:
  std::vector<RopeTable> tables_;       // [ropes]
  std::vector<LayerRule> layer_rules_;  // [n_layers]
};

// Whether the rows of the stream are rotated as the model's own, up to a constant shift of
// positions, for which a turned query makes up.
bool same_rotation(const ModelConfig& master, const StreamInfo& slave);

}  // namespace suture
