// What a sequence attends to besides itself, and where its own entries sit (design §4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/kv_layout.h"
#include "models/model_config.h"

namespace suture {

// A run of entries of the sequence's own cache whose positions are consecutive: entry i sits at
// position i + position_offset. A master that leaves room for documents has two.
struct OwnRun {
  int64_t begin = 0;  // first entry; the run ends where the next begins
  int64_t position_offset = 0;
};

// K/V that another sequence contributes, in this model's layers and positions.
struct ForeignSegment {
  std::vector<KvLayerView> layers;  // [n_layers]; base nullptr where a layer has no partner
  int64_t begin = 0;                // entries [begin, end) of that sequence take part
  int64_t end = 0;
  int64_t position_offset = 0;  // entry i sits at position i + position_offset here
  Visibility visibility = Visibility::kAlways;
  int64_t lag = 1;
  // Two more rules about queries, both about positions only. Entry i is visible from position
  // visible_from[i] on (never falling, [>= end]; empty = no such rule), and no entry is visible to
  // a query at visible_until or later.
  std::span<const int64_t> visible_from;
  int64_t visible_until = INT64_MAX;
  // Shift between the position at which the K rows were rotated and the one they have here: the
  // query meets them rotated to p - rotation_shift.
  int64_t rotation_shift = 0;
  std::vector<float> log_gain;  // [n_layers][n_heads]; empty = all 0
};

struct SequencePlan {
  std::vector<OwnRun> own = {{0, 0}};
  std::vector<ForeignSegment> before;  // merged before the last own run (prefixes)
  std::vector<ForeignSegment> after;   // merged after all own runs (aligned)
};

// Where the plan puts an entry of the sequence's own cache.
int64_t position_of(const SequencePlan& plan, int64_t entry);

// kInvalidArgument if the plan contradicts itself or the model.
Status check_plan(const SequencePlan& plan, const ModelConfig& config);

// Whether the segment has rules beyond visibility and lag.
bool has_row_rule(const ForeignSegment& segment);
// The entry at which, by those rules, what a query at `position` sees of the segment ends.
int32_t row_visible_end(const ForeignSegment& segment, int64_t position);

}  // namespace suture
