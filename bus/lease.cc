#include "bus/lease.h"

#include <fmt/format.h>

#include "base/check.h"

namespace suture {
namespace {

Status check_slot(const Control& control, StreamId stream) {
  if (stream.slot < control.max_streams()) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("stream slot {} of {}", stream.slot, control.max_streams()), "bus");
}

Result<uint32_t> write_slot(const Control& control, uint32_t slot, PeerId peer) {
  const auto leases = control.leases(slot);
  for (uint32_t i = 0; i < kLeasesPerStream; ++i) {
    uint64_t holder = 0;
    // seq_cst: before the reads in check_stream, see Control::has_lease.
    if (leases[i].compare_exchange_strong(holder, peer.value, std::memory_order_seq_cst)) return i;
  }
  return fail(ErrorCode::kBusy,
              fmt::format("{} readers hold stream slot {}", kLeasesPerStream, slot), "bus",
              "retry when a reader has finished");
}

}  // namespace

Status check_stream(const Control& control, StreamId stream) {
  SUTURE_RETURN_IF_ERROR(check_slot(control, stream));
  const StreamSlotData& data = control.stream(stream.slot);
  // The state first, then the generation. If the state belongs to a later stream of this slot, the
  // generation read after it does too, since the owner writes the generation first. seq_cst: see
  // Control::has_lease.
  const auto state = static_cast<StreamState>(data.state.load(std::memory_order_seq_cst));
  const uint64_t generation = data.generation.load(std::memory_order_seq_cst);
  if (generation != stream.generation)
    return fail(ErrorCode::kStaleGeneration,
                fmt::format("stream slot {} holds generation {}, not {}", stream.slot, generation,
                            stream.generation),
                "bus", "ask the owner for the current stream");
  switch (state) {
    case StreamState::kOpen: return {};
    case StreamState::kLost:
      return fail(ErrorCode::kLost, "the process that owns the stream has died", "bus");
    case StreamState::kFree:
    case StreamState::kClosing: break;
  }
  return fail(ErrorCode::kClosed, "the stream was closed by its owner", "bus");
}

Result<Lease> Lease::take(std::shared_ptr<const Control> control, StreamId stream, PeerId peer) {
  SUTURE_CHECK(peer.valid(), "peer={}", peer.value);
  SUTURE_RETURN_IF_ERROR(check_slot(*control, stream));
  SUTURE_ASSIGN_OR_RETURN(const uint32_t index, write_slot(*control, stream.slot, peer));
  Lease lease(std::move(control), stream, peer, index);
  // Only now: the owner may have closed the stream, and opened another, until the slot was written.
  SUTURE_RETURN_IF_ERROR(lease.check());
  return lease;
}

Lease::Lease(std::shared_ptr<const Control> control, StreamId stream, PeerId peer, uint32_t index)
    : control_(std::move(control)), stream_(stream), peer_(peer), index_(index) {}

Lease::Lease(Lease&& other) noexcept
    : control_(std::move(other.control_)),
      stream_(other.stream_),
      peer_(other.peer_),
      index_(other.index_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  std::swap(control_, other.control_);
  std::swap(stream_, other.stream_);
  std::swap(peer_, other.peer_);
  std::swap(index_, other.index_);
  return *this;
}

Lease::~Lease() {
  if (control_ == nullptr) return;
  uint64_t holder = peer_.value;
  // Release: all reads of the blocks come before the owner sees the slot free. Compared, because
  // the broker may have dropped the lease and another reader may hold the slot.
  control_->leases(stream_.slot)[index_].compare_exchange_strong(
      holder, 0, std::memory_order_release, std::memory_order_relaxed);
}

Status Lease::check() const { return check_stream(*control_, stream_); }

}  // namespace suture
