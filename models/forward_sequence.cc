#include "models/forward_sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace suture {
namespace {

tl::unexpected<Error> invalid(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "forward pass");
}

Status check_observation(const AttentionObservation& observation, const ModelConfig& config) {
  if (observation.n_shares < 1 || observation.n_shares > kMaxAttentionShares)
    return invalid(fmt::format("{} shares of attention, 1 to {} are possible", observation.n_shares,
                               kMaxAttentionShares));
  const auto sums = static_cast<int64_t>(observation.mass.size());
  if (sums != int64_t{config.n_layers} * observation.n_shares)
    return invalid(fmt::format("{} sums for {} shares of {} layers", sums, observation.n_shares,
                               config.n_layers));
  return {};
}

}  // namespace

Status ForwardSequence::prepare(const SequenceRows& rows, const ModelConfig& config) {
  SUTURE_RETURN_IF_ERROR(check(rows, config));
  rows_ = rows;
  plan_ = rows.plan != nullptr ? rows.plan : &alone_;
  n_heads_ = config.n_heads;
  first_entry_ = rows.cache->size();
  SUTURE_RETURN_IF_ERROR(check_plan(*plan_, config));
  SUTURE_RETURN_IF_ERROR(place_rows(config));
  shifts_.assign(1, 0);
  ruled_.clear();
  for (const auto* foreign : {&plan_->before, &plan_->after})
    for (const ForeignSegment& segment : *foreign) note_foreign(segment);
  if (std::ssize(shifts_) > kMaxRotatedRows)
    return invalid(
        fmt::format("{} different rotation shifts, at most {}", shifts_.size(), kMaxRotatedRows));
  if (std::ssize(ruled_) > kMaxRowRules)
    return invalid(fmt::format("{} segments with rules of their own, at most {}", ruled_.size(),
                               kMaxRowRules));
  return {};
}

Status ForwardSequence::check(const SequenceRows& rows, const ModelConfig& config) const {
  const auto n_rows = static_cast<int64_t>(rows.token_ids.size());
  if (rows.cache == nullptr || !(rows.cache->shape() == config.kv_shape()))
    return invalid("the K/V cache has another shape than the model");
  if (n_rows < 1 || n_rows > kPrefillGrid)
    return invalid(fmt::format("{} rows, expected 1 to {}", n_rows, kPrefillGrid));
  if (rows.first_logits_row < 0 || rows.first_logits_row > n_rows)
    return invalid(fmt::format("logits from row {} of {}", rows.first_logits_row, n_rows));
  if (rows.first_result_row < 0)
    return invalid(fmt::format("results from row {}", rows.first_result_row));
  if (rows.cache->size() + n_rows > rows.cache->capacity())
    return fail(ErrorCode::kOutOfMemory,
                fmt::format("{} entries and {} more do not fit a K/V cache of {}",
                            rows.cache->size(), n_rows, rows.cache->capacity()),
                "forward pass", "raise max_seq_len, or ask for fewer tokens");
  if (rows.observation != nullptr)
    SUTURE_RETURN_IF_ERROR(check_observation(*rows.observation, config));
  for (const int32_t id : rows.token_ids) {
    if (id < 0 || id >= config.vocab_size)
      return invalid(
          fmt::format("token id {} is outside the vocabulary of {}", id, config.vocab_size));
  }
  return {};
}

Status ForwardSequence::place_rows(const ModelConfig& config) {
  positions_.clear();
  const int64_t end = first_entry_ + std::ssize(rows_.token_ids);
  for (int64_t entry = first_entry_; entry < end; ++entry) {
    const int64_t position = position_of(*plan_, entry);
    if (position < INT32_MIN || position > INT32_MAX)
      return invalid(fmt::format("entry {} has position {}", entry, position));
    positions_.push_back(static_cast<int32_t>(position));
  }
  const int64_t length = std::max(int64_t{positions_.back()} + 1, rows_.total_length);
  rope_epoch_ = suture::rope_epoch(config.ropes, length);
  return {};
}

void ForwardSequence::note_foreign(const ForeignSegment& segment) {
  if (std::find(shifts_.begin(), shifts_.end(), segment.rotation_shift) == shifts_.end())
    shifts_.push_back(segment.rotation_shift);
  if (has_row_rule(segment)) ruled_.push_back(&segment);
}

// In the order of the text: what the sequence began with, what was put before its last run, that
// run, and what goes along with it.
void ForwardSequence::collect_segments(int32_t layer, const RowEnds& row_ends,
                                       LayerSegments& segments) const {
  segments.clear();
  const KvLayerView kv = cache().layer_view(layer);
  int32_t origin = 0;
  for (size_t run = 0; run + 1 < plan_->own.size(); ++run) add_own(run, kv, segments);
  for (const ForeignSegment& segment : plan_->before)
    add_foreign(segment, origin++, layer, row_ends, segments);
  add_own(plan_->own.size() - 1, kv, segments);
  for (const ForeignSegment& segment : plan_->after)
    add_foreign(segment, origin++, layer, row_ends, segments);
}

void ForwardSequence::collect_ranges(const LayerSegments& segments,
                                     std::vector<AttentionRange>& ranges) const {
  ranges.clear();
  for (size_t i = 0; i < segments.segments.size(); ++i) {
    const AttentionSegment& segment = segments.segments[i];
    for (const ObservedRange& asked : rows_.observation->ranges) {
      const int64_t begin = std::max(asked.begin, segment.begin);
      const int64_t end = std::min(asked.end, segment.end);
      if (asked.segment == segments.origins[i] && begin < end)
        ranges.push_back({static_cast<int32_t>(i), begin, end, asked.share});
    }
  }
}

int64_t ForwardSequence::first_result_row() const {
  const RowRun run = run_from(0);
  const int64_t first_observed = run.observed ? 0 : run.rows;
  return std::min({rows_.first_result_row, rows_.first_logits_row, first_observed});
}

RowRun ForwardSequence::run_from(int64_t row) const {
  const AttentionObservation* asked = rows_.observation;
  if (asked == nullptr) return {n_rows() - row, false};
  const int64_t first = std::clamp<int64_t>(asked->first_entry - first_entry_, 0, n_rows());
  const int64_t end = std::clamp<int64_t>(asked->end_entry - first_entry_, first, n_rows());
  if (row < first) return {first - row, false};
  return row < end ? RowRun{end - row, true} : RowRun{n_rows() - row, false};
}

void ForwardSequence::add_own(size_t run, const KvLayerView& kv, LayerSegments& segments) const {
  AttentionSegment segment;
  segment.kv = kv;
  segment.begin = plan_->own[run].begin;
  segment.end = end_entry();
  if (run + 1 < plan_->own.size()) segment.end = std::min(segment.end, plan_->own[run + 1].begin);
  segment.position_offset = plan_->own[run].position_offset;
  if (segment.begin < segment.end) segments.add(segment, kOwnEntries);
}

void ForwardSequence::add_foreign(const ForeignSegment& foreign, int32_t origin, int32_t layer,
                                  const RowEnds& row_ends, LayerSegments& segments) const {
  const KvLayerView& kv = foreign.layers[static_cast<size_t>(layer)];
  if (kv.base == nullptr || foreign.begin == foreign.end) return;
  AttentionSegment segment;
  segment.kv = kv;
  segment.begin = foreign.begin;
  segment.end = foreign.end;
  segment.position_offset = foreign.position_offset;
  segment.visibility = foreign.visibility;
  segment.lag = foreign.lag;
  if (const auto rule = std::find(ruled_.begin(), ruled_.end(), &foreign); rule != ruled_.end())
    segment.row_visible_end = row_ends.of_rule(rule - ruled_.begin());
  const auto variant = std::find(shifts_.begin(), shifts_.end(), foreign.rotation_shift);
  segment.query_variant = static_cast<int32_t>(variant - shifts_.begin());
  if (!foreign.log_gain.empty())
    segment.log_gain = foreign.log_gain.data() + int64_t{layer} * n_heads_;
  segments.add(segment, origin);
}

}  // namespace suture
