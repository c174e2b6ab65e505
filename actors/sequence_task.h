// One sequence that a model process works on, piece by piece, so that many take turns on its engine
// thread: a row of a generated token in a step with others, or a chunk of a prompt by itself.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "bus/layout.h"
#include "models/forward.h"
#include "models/language_model.h"

namespace suture {

enum class Turn : uint8_t {
  kWait,   // nothing, until one of its doorbells rings or another sequence of the process has moved
  kRow,    // the row of one token, with the kernels of generated tokens
  kChunk,  // a chunk of a prompt
  kDone,   // it has ended; finish() says so
};

// Where the chunk that begins at this entry of a sequence ends at the latest.
inline int64_t chunk_end(int64_t entry) { return (entry / kPrefillGrid + 1) * kPrefillGrid; }

// On the engine thread. A sequence that fails ends by itself: nothing here returns an error.
class SequenceTask {
 public:
  virtual ~SequenceTask() = default;

  // What it can do now. Never waits, and may be asked any number of times.
  Turn look();

  // After look() has said kRow: the row, and its logits [vocab] in device memory, valid during the
  // call. The pass that computed it began at `start_ns` (CLOCK_MONOTONIC).
  virtual DecodeItem row() = 0;
  virtual void take_row(const Result<const float*>& logits, int64_t start_ns) = 0;

  // After look() has said kChunk: up to the next multiple of `grid` of its entries.
  virtual void read_chunk(int64_t grid) = 0;

  // After look() has said kWait.
  virtual void add_doorbells(std::vector<DoorbellData*>& doorbells) = 0;

  // After look() has said kDone, once: tells whoever asked what has come of it.
  virtual void finish() = 0;

  // What whoever watches is shown.
  virtual OwnerWork work() const = 0;
  virtual uint64_t request() const = 0;

 protected:
  // What look() says, as long as the sequence has not ended.
  virtual Result<Turn> next_turn() = 0;

  // It has nothing to do any more.
  void end(const Status& outcome);
  // How it has ended.
  const Status& outcome() const { return outcome_; }

 private:
  bool ended_ = false;
  Status outcome_;
};

}  // namespace suture
