// What the attention kernel works on at a time: the query rows of one tile, one span of entries.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace suture {

// One span (256 entries from entry 256 * span) of one segment.
struct AttentionSpan {
  int32_t segment = 0;
  int64_t span = 0;
};

// Rows [first_row, first_row + n_rows) and the query heads that share one K/V head. A slot is one
// query of the tile: slot = (row - first_row) * group + head - kv_head * group.
struct AttentionTile {
  int32_t kv_head = 0;
  int64_t first_row = 0;
  int64_t n_rows = 0;
};

// Softmax over some of the entries, not yet divided by the sum; max = -inf: over none of them.
struct SoftmaxState {
  float* max = nullptr;  // [slots]
  float* sum = nullptr;  // [slots]
  float* acc = nullptr;  // [slots][head_dim]: sum of exp(score - max) * v
};

// A query that sees entries [lo, hi) of the current span.
struct ActiveQuery {
  int32_t slot = 0;
  int32_t lo = 0;
  int32_t hi = 0;
  float log_gain = 0;
};

// Floats that keep their memory from call to call.
class FloatArena {
 public:
  // At least `count` floats, aligned to a cache line, of unspecified content.
  float* reserve(size_t count) {
    if (count > capacity_) {
      floats_ = hwy::AllocateAligned<float>(count);
      capacity_ = count;
    }
    return floats_.get();
  }
  size_t capacity() const { return capacity_; }

 private:
  hwy::AlignedFreeUniquePtr<float[]> floats_;
  size_t capacity_ = 0;
};

// Scratch of one worker for tiles of up to `slots` queries.
class AttentionScratch {
 public:
  // True if it had to take more memory than it had.
  bool resize(int64_t slots, int64_t head_dim);

  float* keys = nullptr;     // [head_dim][32]: one block of K, transposed
  float* values = nullptr;   // [32][head_dim]: one block of V
  float* queries = nullptr;  // [slots][head_dim]: the active queries
  float* scores = nullptr;   // [slots][256]
  SoftmaxState partial;      // of the current span, in the order of `active`
  SoftmaxState state;        // of all spans so far
  std::vector<ActiveQuery> active;

 private:
  FloatArena arena_;
};

}  // namespace suture
