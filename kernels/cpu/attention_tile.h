// What the attention kernel works on at a time: the query rows of one tile, one span of entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention.h"

namespace suture {

// Queries of a full tile: enough to hide the cost of transposing K.
inline constexpr int64_t kTileQueries = 128;

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

// How the queries of one call are cut into tiles.
struct Tiling {
  explicit Tiling(const AttentionArgs& args)
      : n_rows(args.n_rows),
        group(args.n_heads / args.shape.n_kv_heads),
        rows(std::min(n_rows, std::max<int64_t>(1, kTileQueries / group))),
        per_head((n_rows + rows - 1) / rows),
        count(per_head * args.shape.n_kv_heads) {}

  int64_t slots() const { return rows * group; }
  // Early and late tiles take turns: late rows see more, and workers get equal runs of tiles.
  AttentionTile tile(int64_t index) const {
    const int64_t turn = index % per_head;
    const int64_t place = turn % 2 == 0 ? turn / 2 : per_head - 1 - turn / 2;
    return {static_cast<int32_t>(index / per_head), place * rows,
            std::min(rows, n_rows - place * rows)};
  }

  int64_t n_rows;
  int64_t group;
  int64_t rows;      // of a full tile
  int64_t per_head;  // tiles of one K/V head
  int64_t count;     // tiles in all
};

// The spans of all segments in merging order. Segments that no head listens to are left out.
class SpanCursor {
 public:
  explicit SpanCursor(const AttentionArgs& args) : args_(args) {}

  // Fills `spans` with the next ones; returns how many there were.
  int64_t next(std::span<AttentionSpan> spans);

 private:
  const AttentionArgs& args_;
  size_t segment_ = 0;
  int64_t done_ = 0;  // spans of the segment in hand
};

// Softmax over some of the entries, not yet divided by the sum; max = -inf: over none of them.
struct SoftmaxState {
  // What an entry adds to: a column for each channel of V, and one for each share.
  struct Width {
    int64_t head_dim = 0;
    int64_t n_shares = 0;
  };
  static int64_t floats(int64_t slots, const Width& width) {
    return slots * (width.head_dim + width.n_shares + 2);
  }
  static SoftmaxState at(float* memory, int64_t slots, const Width& width) {
    float* acc = memory + 2 * slots;
    return {memory, memory + slots, acc, acc + slots * width.head_dim};
  }

  float* max = nullptr;   // [slots]
  float* sum = nullptr;   // [slots]
  float* acc = nullptr;   // [slots][head_dim]: sum of exp(score - max) * v
  float* mass = nullptr;  // [slots][n_shares]: sum of exp(score - max) over the share's ranges
};

inline SoftmaxState::Width softmax_width(const AttentionArgs& args) {
  return {args.shape.head_dim, args.n_shares};
}

// A query that sees entries [lo, hi) of the current span.
struct ActiveQuery {
  int32_t slot = 0;
  int32_t lo = 0;
  int32_t hi = 0;
  float log_gain = 0;
};

// Memory of one worker for tiles of up to `slots` queries.
struct AttentionScratch {
  static size_t bytes(int64_t slots, const SoftmaxState::Width& width);
  static AttentionScratch at(std::byte* memory, int64_t slots, const SoftmaxState::Width& width);

  float* keys = nullptr;          // [head_dim][32]: one block of K, transposed
  float* values = nullptr;        // [32][head_dim]: one block of V
  float* queries = nullptr;       // [slots][query_stride(head_dim)]: the active queries, then zeros
  float* scores = nullptr;        // [slots][256]
  SoftmaxState partial;           // of the current span, in the order of `active`
  SoftmaxState state;             // of all spans so far
  ActiveQuery* active = nullptr;  // [slots]
};

// Floats from one query to the next: a whole number of vectors of any width.
inline int64_t query_stride(int64_t head_dim) { return (head_dim + 15) / 16 * 16; }

}  // namespace suture
