// Where a model keeps K and V of one sequence: its own heap, or a stream on the bus
// (models/bus_kv_cache.h). Append-only; entries are counted per layer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/kv_layout.h"

namespace suture {

class KvCache {
 public:
  virtual ~KvCache() = default;
  virtual const KvShape& shape() const = 0;
  virtual int64_t capacity() const = 0;                // entries
  virtual int64_t committed(int32_t layer) const = 0;  // entries valid in this layer
  virtual KvLayerView layer_view(int32_t layer) = 0;
  // Entries below `entries` of this layer are written and never change again.
  virtual void commit(int32_t layer, int64_t entries) = 0;
  // The epoch (kernels/rope_schedule.h) whose tables rotate entries [first, first + n): said before
  // they are written, and kept while they live.
  virtual void set_rope_epoch(int64_t first, int64_t n, int64_t epoch) = 0;
  virtual int64_t rope_epoch(int64_t entry) const = 0;
  // Entries valid in every layer.
  int64_t size() const { return committed(shape().n_layers - 1); }
};

// K/V of one sequence in device memory of its own.
Result<std::unique_ptr<KvCache>> make_heap_kv_cache(Device& device, const KvShape& shape,
                                                    int64_t capacity);

}  // namespace suture
