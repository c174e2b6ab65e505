// Attention of new rows over several K/V segments at once (design §4).
//
// For query row r at position p and head h, over all segments s and their visible entries j:
//   score(s, j) = scale * q(r, h, rotation of s) . k(s, j) + log_gain(s, h)
//   out(r, h)   = sum softmax(score) * v(s, j)
// Partial softmaxes over fixed spans of 256 entries (counted from entry 0 of the segment's stream)
// are merged in order with the running-maximum rule, so a row's bits depend on that row alone.
//
// Who wants to know where a row looked names ranges of entries: the share of a range is the part of
// the softmax that falls on it. Asking for shares changes no bit of the result.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/kv_layout.h"
#include "kernels/kv_rows.h"
#include "kernels/matmul.h"

namespace suture {

inline constexpr int64_t kAttentionSpan = 256;
inline constexpr int32_t kMaxAttentionShares = 64;

enum class Visibility : uint8_t {
  kAlways,  // a prefix: every query sees every entry
  kUpTo,    // entry at position j is visible to the query at p if and only if j <= p - lag
};

// One layer's part of one segment: entries [begin, end) of one stream.
struct AttentionSegment {
  KvLayerView kv;               // K as stored (rotated by the position its owner gave it)
  int64_t begin = 0;            // first entry of the stream that takes part
  int64_t end = 0;              // one past the last
  int64_t position_offset = 0;  // entry i sits at position i + position_offset
  Visibility visibility = Visibility::kUpTo;
  int64_t lag = 0;                           // kUpTo only
  const int32_t* row_visible_end = nullptr;  // [n_rows], device memory: row r sees only entries
                                             // below its own end besides; nullptr = no more rules
  int32_t query_variant = 0;                 // which rotation of the query meets this segment's K
  const float* log_gain = nullptr;  // [n_heads], nullptr = all 0; -inf skips (segment, head)
};

// Entries [begin, end) of a segment, of which those count that a row sees.
struct AttentionRange {
  int32_t segment = 0;  // index in AttentionArgs::segments
  int64_t begin = 0;
  int64_t end = 0;
  int32_t share = 0;  // to which this range adds
};

struct AttentionArgs {
  const float* query = nullptr;        // [n_variants][n_rows][n_heads][head_dim], rotated
  const int32_t* positions = nullptr;  // [n_rows], device memory: positions of the rows
  float* out = nullptr;                // [n_rows][n_heads][head_dim]; 0 where nothing is visible
  int64_t n_rows = 0;
  int32_t n_variants = 1;
  int32_t n_heads = 0;  // a multiple of shape.n_kv_heads
  KvShape shape;        // of all segments
  float scale = 0;      // usually 1 / sqrt(head_dim)
  float score_cap = 0;  // cap * tanh(score / cap) before the gain; 0 = none
  int64_t window = 0;   // entry visible only if p - position < window; 0 = none
  std::span<const AttentionSegment> segments;  // host memory, merged in this order
  // What the rows are, as for their matrix products: the sums of generated rows run in another
  // order, which suits few queries.
  MatmulPath path = MatmulPath::kPrefill;
  // Where the rows look; nullptr = nobody asks.
  float* shares = nullptr;  // [n_rows][n_heads][n_shares]; 0 where nothing is visible
  int32_t n_shares = 0;
  std::span<const AttentionRange> ranges;  // host memory
};

Status attention(Stream& stream, const AttentionArgs& args);

}  // namespace suture
