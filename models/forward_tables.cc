#include "models/forward_tables.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "kernels/rope_schedule.h"

namespace suture {
namespace {

template <typename T>
Status upload(Stream& stream, const std::vector<T>& host, DeviceArray<T>& device) {
  return stream.copy_to_device(reinterpret_cast<std::byte*>(device.data()),
                               std::as_bytes(std::span(host)));
}

}  // namespace

ForwardTables::ForwardTables(const ModelConfig& config) : config_(config) {
  slot_epochs_.fill(-1);
  slot_in_use_.fill(false);
}

Status ForwardTables::allocate(Device& device, Stream& stream) {
  const int64_t slots = Forward::kMaxSequences;
  const int64_t n_ropes = std::ssize(config_.ropes);
  const int64_t n_frequencies = slots * n_ropes * (config_.head_dim / 2);
  SUTURE_ASSIGN_OR_RETURN(ids_, DeviceArray<int32_t>::create(device, kPrefillGrid));
  SUTURE_ASSIGN_OR_RETURN(positions_, DeviceArray<int32_t>::create(device, kPrefillGrid));
  SUTURE_ASSIGN_OR_RETURN(row_ends_,
                          DeviceArray<int32_t>::create(device, kMaxRowRules * kPrefillGrid));
  SUTURE_ASSIGN_OR_RETURN(frequencies_, DeviceArray<float>::create(device, n_frequencies));
  ids_staging_.reserve(kPrefillGrid);
  positions_staging_.reserve(kPrefillGrid);
  row_ends_staging_.reserve(kMaxRowRules * kPrefillGrid);
  frequencies_staging_.resize(static_cast<size_t>(n_frequencies));
  attention_factors_.resize(static_cast<size_t>(slots * n_ropes));
  SUTURE_RETURN_IF_ERROR(stage_rope(0, 0, stream));
  return stream.synchronize();
}

Status ForwardTables::stage(std::span<ForwardSequence* const> sequences, Stream& stream) {
  SUTURE_RETURN_IF_ERROR(stream.synchronize());  // the last pass's copies
  ids_staging_.clear();
  positions_staging_.clear();
  row_ends_staging_.clear();
  slot_in_use_.fill(false);
  for (ForwardSequence* sequence : sequences) {
    add_rows(*sequence);
    SUTURE_ASSIGN_OR_RETURN(sequence->rope_slot, rope_slot(sequence->rope_epoch(), stream));
  }
  SUTURE_RETURN_IF_ERROR(upload(stream, ids_staging_, ids_));
  SUTURE_RETURN_IF_ERROR(upload(stream, positions_staging_, positions_));
  return upload(stream, row_ends_staging_, row_ends_);
}

void ForwardTables::add_rows(ForwardSequence& sequence) {
  sequence.first_row = n_rows();
  const auto& ids = sequence.rows().token_ids;
  const auto& positions = sequence.positions();
  ids_staging_.insert(ids_staging_.end(), ids.begin(), ids.end());
  positions_staging_.insert(positions_staging_.end(), positions.begin(), positions.end());
  SUTURE_CHECK(n_rows() <= kPrefillGrid, "rows={}", n_rows());

  const auto& ruled = sequence.ruled();
  row_ends_staging_.resize(std::max(row_ends_staging_.size(), ruled.size() * kPrefillGrid));
  for (size_t rule = 0; rule < ruled.size(); ++rule) {
    const auto ends = row_ends_staging_.begin() + static_cast<int64_t>(rule) * kPrefillGrid;
    std::ranges::transform(positions, ends + sequence.first_row, [&](int32_t position) {
      return row_visible_end(*ruled[rule], position);
    });
  }
}

// The slot that has, or now gets, the tables of an epoch.
Result<int64_t> ForwardTables::rope_slot(int64_t epoch, Stream& stream) {
  auto found = std::ranges::find(slot_epochs_, epoch);
  const bool staged = found != slot_epochs_.end();
  if (!staged)  // there are as many slots as sequences
    found = slot_epochs_.begin() + (std::ranges::find(slot_in_use_, false) - slot_in_use_.begin());
  const int64_t slot = found - slot_epochs_.begin();
  slot_in_use_[static_cast<size_t>(slot)] = true;
  if (!staged) SUTURE_RETURN_IF_ERROR(stage_rope(slot, epoch, stream));
  return slot;
}

Status ForwardTables::stage_rope(int64_t slot, int64_t epoch, Stream& stream) {
  const int64_t n_ropes = std::ssize(config_.ropes);
  const int64_t half = config_.head_dim / 2;
  const int64_t first = slot * n_ropes * half;
  slot_epochs_[static_cast<size_t>(slot)] = -1;  // until the copy has begun
  const auto staged = std::span(frequencies_staging_)
                          .subspan(static_cast<size_t>(first), static_cast<size_t>(n_ropes * half));
  for (int64_t i = 0; i < n_ropes; ++i) {
    attention_factors_[static_cast<size_t>(slot * n_ropes + i)] =
        fill_rope_table(config_.ropes[static_cast<size_t>(i)], config_.head_dim, epoch,
                        staged.subspan(static_cast<size_t>(i * half), static_cast<size_t>(half)));
  }
  SUTURE_RETURN_IF_ERROR(stream.copy_to_device(
      reinterpret_cast<std::byte*>(frequencies_.data() + first), std::as_bytes(staged)));
  slot_epochs_[static_cast<size_t>(slot)] = epoch;
  return {};
}

RopeArgs ForwardTables::rotation(const ForwardSequence& sequence, int32_t layer) {
  const int32_t rope = config_.layer_rules[static_cast<size_t>(layer)].rope;
  const int64_t table = sequence.rope_slot * std::ssize(config_.ropes) + rope;
  RopeArgs rotation;
  rotation.positions = positions(sequence);
  rotation.frequencies = frequencies_.data() + table * (config_.head_dim / 2);
  rotation.attention_factor = attention_factors_[static_cast<size_t>(table)];
  rotation.pairing = config_.rope_pairing;
  rotation.head_dim = config_.head_dim;
  return rotation;
}

}  // namespace suture
