// A reader's end of a stream in another process (or in the same one): K/V used where it lies.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/mapping.h"
#include "bus/control.h"
#include "bus/doorbell.h"
#include "bus/ids.h"
#include "bus/lease.h"
#include "kernels/kv_layout.h"

namespace suture {

class StreamReader;

// One slab of another model as this process sees it. Mapped once and kept by the caller; readers
// keep it alive.
class SlabView : public std::enable_shared_from_this<SlabView> {
 public:
  // Both descriptors stay the caller's and may be closed afterwards.
  static Result<std::shared_ptr<SlabView>> map(int payload_fd, int control_fd, PeerId self);

  // Takes a lease. kStaleGeneration, kClosed, kLost, kBusy as Lease::take; kCorrupt if the block
  // table points outside the payload.
  Result<StreamReader> attach(StreamId stream) const;

  const KvShape& shape() const { return control_->shape(); }
  PeerId owner() const { return control_->owner(); }
  const Control& control() const { return *control_; }
  bool owner_lost() const { return control_->owner_state() == OwnerState::kLost; }

 private:
  friend class StreamReader;

  SlabView(std::shared_ptr<const Control> control, Mapping payload, PeerId self);

  std::shared_ptr<const Control> control_;
  Mapping payload_;  // read-only
  PeerId self_;
};

// Used by one thread at a time. Destruction releases the lease.
class StreamReader {
 public:
  StreamId id() const { return lease_.stream(); }
  const KvShape& shape() const { return view_->shape(); }
  int32_t n_layers() const { return view_->shape().n_layers; }
  int64_t capacity() const;  // tokens

  // Until the owner has committed `tokens` tokens of this layer. Committed rows stay readable when
  // the stream has been closed or lost meanwhile; otherwise kClosed, kLost, kStaleGeneration or
  // kTimeout. kInvalidArgument beyond the capacity, kCorrupt if the owner takes back what it said.
  Status wait(int32_t layer, int64_t tokens, Deadline deadline);
  // The same without waiting: whether they are there already. Errors as wait().
  Result<bool> has(int32_t layer, int64_t tokens) const;
  // Rung when the owner has committed more, and when no more will come.
  DoorbellData& doorbell() const;
  // In all layers: the last one is committed last.
  Status wait_all(int64_t tokens, Deadline deadline) {
    return wait(n_layers() - 1, tokens, deadline);
  }
  int64_t committed(int32_t layer) const;

  // The RoPE epoch of a token below committed(0); at most kMaxRopeEpoch, whatever its owner wrote.
  int64_t rope_epoch(int64_t token) const;

  // To be called when a step starts: ok, kStaleGeneration, kClosed or kLost. A step that has begun
  // may be finished from the mapping whatever happens to the owner.
  Status begin_step() const { return lease_.check(); }

  // Rows below committed(layer) of this layer. The memory is read-only: writing it is a fault.
  KvLayerView layer_view(int32_t layer) const;

 private:
  friend class SlabView;

  StreamReader(std::shared_ptr<const SlabView> view, Lease lease, std::vector<uint32_t> blocks);

  std::shared_ptr<const SlabView> view_;
  Lease lease_;
  std::vector<uint32_t> blocks_;  // own copy of the block table, each < n_blocks
};

}  // namespace suture
