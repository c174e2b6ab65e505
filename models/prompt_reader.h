// Reads a prompt piece by piece: between two pieces the model can run something else, such as the
// next tokens of other sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/error.h"
#include "models/forward.h"
#include "models/kv_cache.h"

namespace suture {

struct PrefillArgs {
  std::span<const int32_t> token_ids;  // host; become entries size() .. of the cache
  KvCache* cache = nullptr;
  const SequencePlan* plan = nullptr;           // nullptr = the sequence alone
  const LayerGate* gate = nullptr;              // may be nullptr
  AttentionObservation* observation = nullptr;  // see SequenceRows
  // The kernels of generated tokens can be asked for, to measure what they lose.
  MatmulPath path = MatmulPath::kPrefill;

  // Called before each chunk with the entries [begin, end) that it will write. May be empty.
  std::function<Status(int64_t begin, int64_t end)> on_chunk;
  // Called for every row from first_logits_row on, in order, with its logits [vocab] in device
  // memory, valid during the call. Empty = only the last row's logits are computed.
  std::function<Status(int64_t row, const float* logits)> on_logits;
  int64_t first_logits_row = 0;  // row of token_ids; behind the last one: K and V are all we want
};

class PromptReader {
 public:
  // What `args` points to must outlive the reader, and nobody else may write its cache until the
  // prompt is read. kInvalidArgument without a token or a cache.
  static Result<PromptReader> create(Forward& forward, int64_t vocab_size, PrefillArgs args);

  bool done() const { return next_ == std::ssize(args_.token_ids); }

  // Reads one chunk, up to the next multiple of `grid` of the cache's entries; `grid` is at most
  // kPrefillGrid. Returns the logits [vocab] of the prompt's last row in device memory, valid until
  // the model's next pass, when that row has been read, and nullptr before, or if nobody wants
  // them. Which grids the steps had leaves no trace in the bits. After an error the cache cannot be
  // used any more.
  Result<const float*> step(int64_t grid = kPrefillGrid);

 private:
  PromptReader(Forward& forward, int64_t vocab_size, PrefillArgs args);
  Result<const float*> run_chunk(int64_t rows);
  Result<const float*> report_rows(int64_t rows);
  bool wants_logits() const { return args_.first_logits_row < std::ssize(args_.token_ids); }

  Forward* forward_;
  int64_t vocab_size_;
  PrefillArgs args_;
  int64_t next_ = 0;  // row of token_ids
};

}  // namespace suture
