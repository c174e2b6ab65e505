// How two models rotate their K rows, and whether rows of one can be used by the other as they lie
// (design §4). Where they cannot, they are rotated anew (kernels/kv_map.h) with these tables.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
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
  // The stream says how it is rotated: info.ropes is not empty.
  explicit StreamRotations(const StreamInfo& info)
      : head_dim_(info.shape.head_dim), ropes_(info.ropes), layer_ropes_(info.layer_ropes) {}
  // `epoch` is that of the row, as the bus has it.
  Rotation at(int32_t layer, int64_t epoch);

 private:
  int32_t head_dim_;
  std::vector<RopeSchedule> ropes_;
  std::vector<int32_t> layer_ropes_;
  std::map<std::pair<int32_t, int64_t>, RopeTable>
      tables_;  // by rope and epoch, as they are needed
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

// Whether the rows of the stream are rotated as the model's own layers that meet them, up to a
// constant shift of positions, for which a turned query makes up. `layer_map` as in SourceLink.
bool same_rotation(const ModelConfig& master, const StreamInfo& slave,
                   std::span<const int32_t> layer_map);

}  // namespace suture
