// One sequence in a forward pass: which of the pass's rows are its own, and what they attend to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "kernels/attention.h"
#include "models/forward.h"
#include "models/kv_cache.h"
#include "models/model_config.h"
#include "models/sequence_plan.h"

namespace suture {

// Rotated queries held at a time, all variants together: more variants, fewer rows in one go.
inline constexpr int64_t kMaxRotatedRows = 1024;
// Segments of one sequence of which every row has a visible end of its own.
inline constexpr int64_t kMaxRowRules = 64;

// Ends of the rows of one sequence in its segments with rules for each row, in device memory.
struct RowEnds {
  const int32_t* first = nullptr;  // [rule][stride], of which the sequence's rows come first
  int64_t stride = 0;
  const int32_t* of_rule(int64_t rule) const { return first + rule * stride; }
};

// What the rows attend to in a layer, merged in this order, and which segment of the plan each is
// (kOwnEntries for the sequence's own).
struct LayerSegments {
  std::vector<AttentionSegment> segments;
  std::vector<int32_t> origins;

  void clear() {
    segments.clear();
    origins.clear();
  }
  void add(const AttentionSegment& segment, int32_t origin) {
    segments.push_back(segment);
    origins.push_back(origin);
  }
  // The next rows are those after the first `rows` of what they were.
  void pass_by(int64_t rows) {
    for (AttentionSegment& segment : segments)
      if (segment.row_visible_end != nullptr) segment.row_visible_end += rows;
  }
};

// Rows that are observed, or not, one like the other.
struct RowRun {
  int64_t rows = 0;
  bool observed = false;
};

// Made once and used again for every pass, so that its vectors keep their memory.
class ForwardSequence {
 public:
  // Takes the rows in, or says why they cannot be run. Touches nothing but this object.
  Status prepare(const SequenceRows& rows, const ModelConfig& config);

  int64_t n_rows() const { return std::ssize(positions_); }
  int64_t first_entry() const { return first_entry_; }
  int64_t end_entry() const { return first_entry_ + n_rows(); }
  int64_t n_logits_rows() const { return n_rows() - rows_.first_logits_row; }
  // The first row that is wanted to the end of the last layer; n_rows() = none.
  int64_t first_result_row() const;
  const SequenceRows& rows() const { return rows_; }
  KvCache& cache() const { return *rows_.cache; }
  const std::vector<int32_t>& positions() const { return positions_; }  // [n_rows]
  int64_t rope_epoch() const { return rope_epoch_; }
  // rotation_shift of each variant of the query. Variant 0 is the query at its own position, which
  // the sequence's own K meets.
  const std::vector<int64_t>& shifts() const { return shifts_; }
  // Segments with rules for each row, in the order of RowEnds.
  const std::vector<const ForeignSegment*>& ruled() const { return ruled_; }

  void collect_segments(int32_t layer, const RowEnds& row_ends, LayerSegments& segments) const;
  // What is asked about these segments.
  void collect_ranges(const LayerSegments& segments, std::vector<AttentionRange>& ranges) const;
  // The longest run that begins at a row.
  RowRun run_from(int64_t row) const;

  int64_t first_row = 0;  // of the pass
  size_t index = 0;       // among the sequences that were asked for
  int64_t rope_slot = 0;  // which rope tables rotate its rows

 private:
  Status check(const SequenceRows& rows, const ModelConfig& config) const;
  Status place_rows(const ModelConfig& config);
  void note_foreign(const ForeignSegment& segment);
  void add_own(size_t run, const KvLayerView& kv, LayerSegments& segments) const;
  void add_foreign(const ForeignSegment& foreign, int32_t origin, int32_t layer,
                   const RowEnds& row_ends, LayerSegments& segments) const;

  SequenceRows rows_;
  SequencePlan alone_;
  const SequencePlan* plan_ = nullptr;
  int32_t n_heads_ = 0;
  int64_t first_entry_ = 0;
  int64_t rope_epoch_ = 0;
  std::vector<int32_t> positions_;
  std::vector<int64_t> shifts_;
  std::vector<const ForeignSegment*> ruled_;
};

}  // namespace suture
