// A slave's K/V as the master's own kind (design §4): where frequencies, pairing, element type or
// vocabularies differ, every row that the master needs is rewritten once, into a cache of the
// master's. Entry j stands for the master's token j (aligned) or the slave's entry j (prefix), at
// the master's position.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/row_source.h"
#include "base/error.h"
#include "fusion/merge_plan.h"
#include "fusion/rope_map.h"
#include "fusion/token_alignment.h"
#include "kernels/device.h"
#include "models/kv_cache.h"

namespace suture {

struct MappedSourceSetup {
  StreamInfo slave;
  ModelConfig master;
  std::vector<int32_t> layer_map;        // see SourceLink
  std::vector<PlannedSegment> segments;  // in rising order of entries
  int64_t capacity = 0;                  // mapped entries
  // Positions of the master's prompt: its rows have the RoPE epoch of the whole prompt, later ones
  // that of their own position.
  int64_t prompt_length = 0;
};

class MappedSource {
 public:
  static Result<std::unique_ptr<MappedSource>> create(Device& device, Stream& stream,
                                                      MappedSourceSetup setup);

  KvLayerView layer_view(int32_t layer) { return cache_->layer_view(layer); }

  // Rewrites what is not there yet of the master's layer `layer`, up to entry `end`. The slave has
  // committed the rows; `alignment` says which belongs to which entry, nullptr = the same.
  Status map(const RowSource& source, const TokenAlignment* alignment, int32_t layer, int64_t end);

 private:
  // Consecutive entries of one rotation on either side.
  struct Run {
    int64_t first_entry = 0;
    Rotation slave;
    Rotation master;
    std::vector<int32_t> slave_entries;
    std::vector<int32_t> positions;
  };

  MappedSource(Stream& stream, MappedSourceSetup setup, std::unique_ptr<KvCache> cache);
  int64_t position_of(int64_t entry) const;
  Status write(const RowSource& source, int32_t layer, const Run& run);

  Stream& stream_;
  const MappedSourceSetup setup_;
  Rotations slave_rotations_;
  Rotations master_rotations_;
  std::unique_ptr<KvCache> cache_;
  std::vector<int64_t> mapped_;  // [n_layers] entries below are there
};

}  // namespace suture
