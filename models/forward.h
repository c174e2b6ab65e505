// The forward pass of a decoder-only transformer over K/V segments, for the rows of one or several
// sequences: matrices meet all rows together, attention is of each sequence alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/matmul.h"
#include "models/attention_observation.h"
#include "models/kv_cache.h"
#include "models/model_config.h"
#include "models/sequence_plan.h"
#include "models/weights.h"

namespace suture {

// Prompts run in chunks on this grid of a sequence's entries (design §4); rows of one pass.
inline constexpr int64_t kPrefillGrid = 512;

// Called before a layer's attention; returns when the foreign segments have what the rows
// [first_row, first_row + n_rows) of the cache need in that layer. Empty = nothing to wait for.
using LayerGate = std::function<Status(int32_t layer)>;

// The rows of one sequence in a pass.
struct SequenceRows {
  std::span<const int32_t> token_ids;  // [n_rows], host
  KvCache* cache = nullptr;            // rows become its entries size() .. size() + n_rows
  const SequencePlan* plan = nullptr;  // nullptr = the sequence alone, positions from 0
  const LayerGate* gate = nullptr;     // may be nullptr
  // Positions of the whole text that is being read, by which a rope that depends on the length
  // rotates these rows; 0 = up to the last of them.
  int64_t total_length = 0;
  int64_t first_logits_row = 0;  // logits are computed for rows [first_logits_row, n_rows)
  // Rows from here on are computed to the end as well, for logits(). The other rows come to an end
  // with K and V of the last layer, unless they are observed: nobody meets what that layer adds.
  int64_t first_result_row = INT64_MAX;
  AttentionObservation* observation = nullptr;  // of the rows' attention; nullptr = nobody asks
};

// Logits [n_rows - first_logits_row][vocab] in device memory, valid until the next call; nullptr
// when there are no such rows. Or why the sequence has none.
using SequenceLogits = Result<const float*>;

class Forward {
 public:
  // Scratch is sized for kPrefillGrid rows at most; nothing is allocated while running.
  static Result<std::unique_ptr<Forward>> create(const ModelConfig& config, const Weights& weights,
                                                 Device& device, Stream& stream);
  ~Forward();

  // Runs up to kPrefillGrid rows of up to kMaxSequences sequences, each with a cache of its own,
  // with at most kMaxLogitsRows rows of logits. The answer has one element for each sequence and is
  // valid until the next call.
  //
  // A sequence that cannot be run is left out, and its cache is as before. Rows are committed to
  // the caches layer by layer, as soon as they are written; a sequence that fails in between, by
  // its gate, has a cache with part of them, which cannot be used any more. The others go on, and
  // their bits are what they are without it.
  std::span<const SequenceLogits> run(std::span<const SequenceRows> sequences, MatmulPath path);
  SequenceLogits run(const SequenceRows& sequence, MatmulPath path);

  // Logits [n_rows][vocab] of rows of the last run, for callers that want more than kMaxLogitsRows
  // of them and said so by first_result_row; valid until the next call of either.
  Result<const float*> logits(int64_t first_row, int64_t n_rows);

  // Bounded by the logits, the only thing of which a pass for one sequence does not need as much.
  static constexpr int64_t kMaxSequences = 32;
  static constexpr int64_t kMaxLogitsRows = 32;
  // Bytes of the logits among what create() allocates.
  static uint64_t logits_bytes(const ModelConfig& config) {
    return static_cast<uint64_t>(kMaxLogitsRows * config.vocab_size) * sizeof(float);
  }

 private:
  struct State;
  explicit Forward(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace suture
