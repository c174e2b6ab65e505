// The forward pass of a decoder-only transformer over K/V segments.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/attention.h"
#include "kernels/device.h"
#include "models/kv_cache.h"
#include "models/model_config.h"
#include "models/weights.h"

namespace suture {

// Prompts run in chunks on this grid of a sequence's entries (design §4).
inline constexpr int64_t kPrefillGrid = 512;

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

// Called before a layer's attention; returns when the foreign segments have what the rows
// [first_row, first_row + n_rows) of the cache need in that layer. Empty = nothing to wait for.
using LayerGate = std::function<Status(int32_t layer)>;

struct ForwardArgs {
  std::span<const int32_t> token_ids;  // [n_rows], host
  MatmulPath path = MatmulPath::kPrefill;
  KvCache* cache = nullptr;            // rows become its entries size() .. size() + n_rows
  const SequencePlan* plan = nullptr;  // nullptr = the sequence alone, positions from 0
  const LayerGate* gate = nullptr;     // may be nullptr
  // Positions of the whole text that is being read, by which a rope that depends on the length
  // rotates these rows; 0 = up to the last of them.
  int64_t total_length = 0;
  int64_t first_logits_row = 0;  // logits are computed for rows [first_logits_row, n_rows)
};

class Forward {
 public:
  // Scratch is sized for kPrefillGrid rows at most; nothing is allocated while running.
  static Result<std::unique_ptr<Forward>> create(const ModelConfig& config, const Weights& weights,
                                                 Device& device, Stream& stream);
  ~Forward();

  // Runs up to kPrefillGrid rows. Returns logits [n_rows - first_logits_row][vocab] in device
  // memory, valid until the next call; nullptr when first_logits_row == n_rows. At most
  // kMaxLogitsRows rows of logits at a time. Rows are committed to the cache layer by layer, as
  // soon as they are written; after an error in between, the cache holds part of them and cannot
  // be used any more.
  Result<const float*> run(const ForwardArgs& args);

  // Logits [n_rows][vocab] of rows of the last run, for callers that want more than kMaxLogitsRows
  // of them; valid until the next call of either.
  Result<const float*> logits(int64_t first_row, int64_t n_rows);

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
