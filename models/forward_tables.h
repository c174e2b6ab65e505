// What the ops of a forward pass look up for each row, in device memory: token ids, positions,
// visible ends and rope frequencies.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/rope.h"
#include "models/device_array.h"
#include "models/forward.h"
#include "models/forward_sequence.h"
#include "models/model_config.h"

namespace suture {

class ForwardTables {
 public:
  explicit ForwardTables(const ModelConfig& config);
  Status allocate(Device& device, Stream& stream);

  // Fills the tables for the rows of these sequences, which come one after another, and tells each
  // where its own begin.
  Status stage(std::span<ForwardSequence* const> sequences, Stream& stream);

  int64_t n_rows() const { return std::ssize(ids_staging_); }
  const int32_t* ids() { return ids_.data(); }  // [n_rows]
  const int32_t* positions(const ForwardSequence& sequence) {
    return positions_.data() + sequence.first_row;
  }
  RowEnds row_ends(const ForwardSequence& sequence) {
    return {row_ends_.data() + sequence.first_row, kPrefillGrid};
  }
  // What the rotations of a sequence's rows in a layer have in common.
  RopeArgs rotation(const ForwardSequence& sequence, int32_t layer);

 private:
  void add_rows(ForwardSequence& sequence);
  Result<int64_t> rope_slot(int64_t epoch, Stream& stream);
  Status stage_rope(int64_t slot, int64_t epoch, Stream& stream);

  const ModelConfig& config_;
  DeviceArray<int32_t> ids_;        // [kPrefillGrid]
  DeviceArray<int32_t> positions_;  // [kPrefillGrid]
  DeviceArray<int32_t> row_ends_;   // [kMaxRowRules][kPrefillGrid]
  // [kMaxSequences][ropes][head_dim / 2] radians per position. Sequences of one length epoch share
  // a slot; slots are kept from pass to pass.
  DeviceArray<float> frequencies_;

  // Host staging must not change before its copies are done.
  std::vector<int32_t> ids_staging_;
  std::vector<int32_t> positions_staging_;
  std::vector<int32_t> row_ends_staging_;                    // [rules][kPrefillGrid]
  std::vector<float> frequencies_staging_;                   // as frequencies_
  std::vector<float> attention_factors_;                     // [kMaxSequences][ropes]
  std::array<int64_t, Forward::kMaxSequences> slot_epochs_;  // -1 = empty
  std::array<bool, Forward::kMaxSequences> slot_in_use_;     // by the pass being staged
};

}  // namespace suture
