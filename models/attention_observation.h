// Where the rows of a sequence look: how the softmax of their attention is shared out between parts
// of what they see. What is observed is no different for it, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace suture {

inline constexpr int32_t kOwnEntries = -1;

// Entries [begin, end) of the sequence's own cache, or of one segment of its plan.
struct ObservedRange {
  int32_t segment = kOwnEntries;  // or index in plan.before, and behind these in plan.after
  int64_t begin = 0;
  int64_t end = INT64_MAX;
  int32_t share = 0;  // to which the range adds
};

struct AttentionObservation {
  // Rows at entries [first_entry, end_entry) of the cache are observed.
  int64_t first_entry = 0;
  int64_t end_entry = INT64_MAX;
  int32_t n_shares = 0;  // at most kMaxAttentionShares
  std::vector<ObservedRange> ranges;
  // What passes add to, [n_layers][n_shares]: the sum over observed rows of the mean over heads.
  std::vector<double> mass;
  int64_t rows = 0;  // observed so far
};

}  // namespace suture
