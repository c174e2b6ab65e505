// A reader's promise from the bus: the blocks of its stream are not reused while it holds a lease.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "bus/control.h"
#include "bus/ids.h"

namespace suture {

// The stream is open: ok, kStaleGeneration, kClosed or kLost; kInvalidArgument for a slot out of
// range. Says nothing about the next moment unless the caller holds a lease.
Status check_stream(const Control& control, StreamId stream);

class Lease {
 public:
  // kStaleGeneration, kClosed or kLost if the stream is not there any more; kBusy if
  // kLeasesPerStream readers hold it; kInvalidArgument for a slot out of range.
  static Result<Lease> take(std::shared_ptr<const Control> control, StreamId stream, PeerId peer);

  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  // check_stream() of what was leased.
  Status check() const;
  StreamId stream() const { return stream_; }

 private:
  Lease(std::shared_ptr<const Control> control, StreamId stream, PeerId peer, uint32_t index);

  std::shared_ptr<const Control> control_;  // empty after a move
  StreamId stream_;
  PeerId peer_;
  uint32_t index_ = 0;  // of the stream's lease slots
};

}  // namespace suture
