#include "bus/stream_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "bus/payload.h"

namespace suture {
namespace {

// Block ids in the reader's own memory: another process may write the shared table at any moment.
Result<std::vector<uint32_t>> copy_block_table(const Control& control, uint32_t slot) {
  // relaxed: the state that the lease has read as open was written after the table.
  const uint32_t count = control.stream(slot).n_blocks.load(std::memory_order_relaxed);
  if (count == 0 || count > control.max_blocks_per_stream())
    return fail(ErrorCode::kCorrupt, fmt::format("block table of {} entries", count), "bus");
  std::vector<uint32_t> blocks(count);
  const auto table = control.block_table(slot);
  for (uint32_t i = 0; i < count; ++i) {
    blocks[i] = table[i].load(std::memory_order_relaxed);
    if (blocks[i] >= control.n_blocks())
      return fail(ErrorCode::kCorrupt,
                  fmt::format("block {} of {} in a block table", blocks[i], control.n_blocks()),
                  "bus");
  }
  return blocks;
}

}  // namespace

Result<std::shared_ptr<SlabView>> SlabView::map(int payload_fd, int control_fd, PeerId self) {
  SUTURE_ASSIGN_OR_RETURN(Control control, Control::attach(control_fd));
  SUTURE_ASSIGN_OR_RETURN(Mapping payload,
                          Payload::open_read_only(payload_fd, control.payload_bytes()));
  auto shared = std::make_shared<const Control>(std::move(control));
  return std::shared_ptr<SlabView>(new SlabView(std::move(shared), std::move(payload), self));
}

SlabView::SlabView(std::shared_ptr<const Control> control, Mapping payload, PeerId self)
    : control_(std::move(control)), payload_(std::move(payload)), self_(self) {}

Result<StreamReader> SlabView::attach(StreamId stream) const {
  // Before a lease is written, to leave no trace on streams that are plainly gone.
  SUTURE_RETURN_IF_ERROR(check_stream(*control_, stream));
  SUTURE_ASSIGN_OR_RETURN(Lease lease, Lease::take(control_, stream, self_));
  SUTURE_ASSIGN_OR_RETURN(std::vector<uint32_t> blocks, copy_block_table(*control_, stream.slot));
  return StreamReader(shared_from_this(), std::move(lease), std::move(blocks));
}

StreamReader::StreamReader(std::shared_ptr<const SlabView> view, Lease lease,
                           std::vector<uint32_t> blocks)
    : view_(std::move(view)), lease_(std::move(lease)), blocks_(std::move(blocks)) {}

int64_t StreamReader::capacity() const {
  return static_cast<int64_t>(blocks_.size()) * kKvBlockTokens;
}

int64_t StreamReader::committed(int32_t layer) const {
  SUTURE_CHECK(layer >= 0 && layer < n_layers(), "layer={} of {}", layer, n_layers());
  // acquire: rows below the count are read after it.
  const uint64_t tokens = view_->control_->committed(id().slot)[static_cast<size_t>(layer)].load(
      std::memory_order_acquire);
  return static_cast<int64_t>(std::min(tokens, static_cast<uint64_t>(capacity())));
}

int64_t StreamReader::rope_epoch(int64_t token) const {
  SUTURE_CHECK(token >= 0 && token < capacity(), "token={} of {}", token, capacity());
  // relaxed: written before the commit that the caller has seen.
  const uint32_t epoch = view_->control_->epochs(id().slot)[static_cast<size_t>(token)].load(
      std::memory_order_relaxed);
  return std::min(int64_t{epoch}, kMaxRopeEpoch);
}

DoorbellData& StreamReader::doorbell() const { return view_->control_->stream(id().slot).doorbell; }

Result<bool> StreamReader::has(int32_t layer, int64_t tokens) const {
  if (tokens < 0 || tokens > capacity())
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("wait for {} tokens of a stream of {}", tokens, capacity()), "bus");
  const Status status = lease_.check();
  const bool stale = !status && status.error().code == ErrorCode::kStaleGeneration;
  // Committed rows of a closed or lost stream are still good; another stream's rows never are.
  if (!stale && committed(layer) >= tokens) return true;
  if (!status) return tl::unexpected<Error>(status.error());
  return false;
}

Status StreamReader::wait(int32_t layer, int64_t tokens, Deadline deadline) {
  SUTURE_ASSIGN_OR_RETURN(bool there, has(layer, tokens));
  if (there) return {};
  const bool in_time = wait_for_doorbell(doorbell(), deadline, [&] {
    return committed(layer) >= tokens || !lease_.check().has_value();
  });
  SUTURE_ASSIGN_OR_RETURN(there, has(layer, tokens));
  if (there) return {};
  // What ended the wait is not so any more: an owner that keeps to the protocol takes nothing back.
  if (in_time)
    return fail(ErrorCode::kCorrupt, "the stream's state or committed count went back", "bus");
  return fail(ErrorCode::kTimeout,
              fmt::format("{} of {} tokens of layer {} in time", committed(layer), tokens, layer),
              "bus");
}

KvLayerView StreamReader::layer_view(int32_t layer) const {
  SUTURE_CHECK(layer >= 0 && layer < n_layers(), "layer={} of {}", layer, n_layers());
  const Control& control = *view_->control_;
  const std::byte* base =
      view_->payload_.data() + layer * shape().block_bytes() * int64_t{control.n_blocks()};
  // KvLayerView serves writers and readers alike. Attention only reads; a write would be a fault,
  // since the mapping is read-only.
  return KvLayerView{const_cast<std::byte*>(base), blocks_.data()};
}

}  // namespace suture
