#include "bus/slab.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/check.h"
#include "bus/doorbell.h"

namespace suture {
namespace {

// A generation holds its owner's peer id above a count of this many bits. A restarted owner is
// another peer: a reference to a stream of its predecessor names none of its own.
constexpr int kGenerationBits = 32;
constexpr uint64_t kMaxOwner = (uint64_t{1} << kGenerationBits) - 1;

Result<ControlOptions> control_options(const SlabOptions& options) {
  const bool ok =
      options.max_seq_len >= 1 &&
      options.max_seq_len <= int64_t{kMaxBlocksPerStream} * kKvBlockTokens &&
      options.max_sequences >= 1 &&
      options.max_sequences <= static_cast<int32_t>(kMaxStreams) / kStreamsPerSequence &&
      options.owner.value <= kMaxOwner;
  if (!ok)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("max_seq_len = {}, max_sequences = {}, owner = {}", options.max_seq_len,
                            options.max_sequences, options.owner.value),
                "bus");
  const int64_t blocks_per_stream = kv_blocks_for(options.max_seq_len);
  ControlOptions control;
  control.shape = options.shape;
  control.n_blocks = static_cast<uint32_t>(blocks_per_stream * options.max_sequences);
  control.max_streams = static_cast<uint32_t>(options.max_sequences * kStreamsPerSequence);
  control.max_blocks_per_stream = static_cast<uint32_t>(blocks_per_stream);
  control.owner = options.owner;
  return control;
}

}  // namespace

Slab::Slab(Payload payload, Control control, int64_t max_seq_len)
    : payload_(std::move(payload)),
      control_(std::move(control)),
      max_seq_len_(max_seq_len),
      pool_(control_.n_blocks()),
      slots_(control_.max_streams()),
      next_generation_((control_.owner().value << kGenerationBits) + 1) {}

Result<std::shared_ptr<Slab>> Slab::create(const SlabOptions& options) {
  SUTURE_ASSIGN_OR_RETURN(const ControlOptions counts, control_options(options));
  SUTURE_ASSIGN_OR_RETURN(Control control, Control::create(counts));
  SUTURE_ASSIGN_OR_RETURN(Payload payload, Payload::create(control.payload_bytes()));
  return std::shared_ptr<Slab>(
      new Slab(std::move(payload), std::move(control), options.max_seq_len));
}

Result<uint64_t> Slab::memory_bytes_for(const SlabOptions& options) {
  SUTURE_ASSIGN_OR_RETURN(const ControlOptions counts, control_options(options));
  return Control::memory_bytes_for(counts);
}

Result<std::unique_ptr<StreamWriter>> Slab::open_stream(const StreamInfo& info,
                                                        int64_t max_tokens) {
  SUTURE_ASSIGN_OR_RETURN(const uint32_t needed, blocks_needed(info, max_tokens));
  const std::lock_guard lock(mutex_);
  reclaim_locked();
  SUTURE_ASSIGN_OR_RETURN(const uint32_t slot, free_slot());
  SUTURE_ASSIGN_OR_RETURN(std::vector<uint32_t> blocks, pool_.allocate(needed));
  return publish(slot, std::move(blocks), info, {});
}

Result<std::unique_ptr<StreamWriter>> Slab::fork_stream(const StreamWriter& parent,
                                                        int64_t prefix_tokens,
                                                        const StreamInfo& info,
                                                        int64_t max_tokens) {
  SUTURE_CHECK(parent.slab_.get() == this, "stream slot {} of another slab", parent.id().slot);
  SUTURE_ASSIGN_OR_RETURN(const uint32_t needed, blocks_needed(info, max_tokens));
  if (parent.closed()) return fail(ErrorCode::kClosed, "the stream to fork is closed", "bus");
  const int64_t ready = *std::ranges::min_element(parent.committed_);
  if (prefix_tokens < 0 || prefix_tokens > ready || prefix_tokens > max_tokens)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("fork of {} tokens from a stream of {} into one of {}", prefix_tokens,
                            ready, max_tokens),
                "bus");
  const std::lock_guard lock(mutex_);
  reclaim_locked();
  SUTURE_ASSIGN_OR_RETURN(const uint32_t slot, free_slot());
  const auto n_shared = static_cast<uint32_t>(prefix_tokens / kKvBlockTokens);
  SUTURE_ASSIGN_OR_RETURN(const std::vector<uint32_t> own, pool_.allocate(needed - n_shared));
  std::vector<uint32_t> blocks(parent.blocks_.begin(), parent.blocks_.begin() + n_shared);
  pool_.retain(blocks);
  blocks.insert(blocks.end(), own.begin(), own.end());
  if (const int64_t rows = prefix_tokens % kKvBlockTokens; rows != 0)
    copy_rows(parent.blocks_[n_shared], blocks[n_shared], rows);
  return publish(slot, std::move(blocks), info,
                 std::span(parent.epochs_).first(static_cast<size_t>(prefix_tokens)));
}

Result<uint32_t> Slab::blocks_needed(const StreamInfo& info, int64_t max_tokens) const {
  SUTURE_RETURN_IF_ERROR(validate(info));
  if (info.shape != shape())
    return fail(ErrorCode::kIncompatible, "the stream's K/V shape is not the slab's", "bus");
  const auto known = static_cast<int64_t>(info.token_ids.size());
  if (max_tokens < 1 || max_tokens > max_seq_len_ || known > max_tokens)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a stream of {} tokens with {} known ones; max_seq_len is {}",
                            max_tokens, known, max_seq_len_),
                "bus", "shorten the text or raise max_seq_len in [bus]");
  return static_cast<uint32_t>(kv_blocks_for(max_tokens));
}

Result<uint32_t> Slab::free_slot() const {
  const auto slot = std::ranges::find(slots_, false, &SlotUse::taken);
  if (slot == slots_.end())
    return fail(ErrorCode::kBusy, fmt::format("all {} stream slots are taken", slots_.size()),
                "bus", "retry when a request has ended, or raise max_sequences");
  return static_cast<uint32_t>(slot - slots_.begin());
}

std::unique_ptr<StreamWriter> Slab::publish(uint32_t slot, std::vector<uint32_t> blocks,
                                            const StreamInfo& info,
                                            std::span<const uint32_t> committed_epochs) {
  const StreamId id{slot, next_generation_++};
  StreamSlotData& data = control_.stream(slot);
  // seq_cst, and before the state: a reader that sees the new state must not see the old
  // generation (lease.cc).
  data.generation.store(id.generation, std::memory_order_seq_cst);
  // relaxed, up to the state: no reader looks at these before it has seen the slot open.
  const auto table = control_.block_table(slot);
  for (size_t i = 0; i < blocks.size(); ++i) table[i].store(blocks[i], std::memory_order_relaxed);
  data.n_blocks.store(static_cast<uint32_t>(blocks.size()), std::memory_order_relaxed);
  data.request.store(0, std::memory_order_relaxed);
  for (std::atomic<uint64_t>& committed : control_.committed(slot))
    committed.store(committed_epochs.size(), std::memory_order_relaxed);
  std::vector<uint32_t> epochs(committed_epochs.begin(), committed_epochs.end());
  epochs.resize(blocks.size() * static_cast<size_t>(kKvBlockTokens));
  const auto shared_epochs = control_.epochs(slot);
  for (size_t i = 0; i < epochs.size(); ++i)
    shared_epochs[i].store(epochs[i], std::memory_order_relaxed);
  data.state.store(static_cast<uint32_t>(StreamState::kOpen), std::memory_order_seq_cst);
  ring_doorbell(data.doorbell);

  publish_use();
  slots_[slot] = SlotUse{.taken = true, .deferred = false, .blocks = blocks};
  return std::unique_ptr<StreamWriter>(new StreamWriter(shared_from_this(), id, info,
                                                        std::move(blocks), std::move(epochs),
                                                        std::ssize(committed_epochs)));
}

// The first `rows` rows of every head, K and V, in all layers. No more: rows behind them may be
// written at this moment.
void Slab::copy_rows(uint32_t from_block, uint32_t to_block, int64_t rows) const {
  const KvShape& kv = shape();
  const int64_t row_bytes = kv.head_dim * kv.element_bytes();
  for (int32_t layer = 0; layer < kv.n_layers; ++layer) {
    const std::byte* from = layer_base(layer) + from_block * kv.block_bytes();
    std::byte* to = layer_base(layer) + to_block * kv.block_bytes();
    for (int32_t head = 0; head < 2 * kv.n_kv_heads; ++head) {  // all K heads, then all V heads
      const int64_t offset = head * kKvBlockTokens * row_bytes;
      std::memcpy(to + offset, from + offset, static_cast<size_t>(rows * row_bytes));
    }
  }
}

void Slab::close_stream(uint32_t slot) {
  const std::lock_guard lock(mutex_);
  StreamSlotData& data = control_.stream(slot);
  // seq_cst: before the scan of the leases, see Control::has_lease.
  data.state.store(static_cast<uint32_t>(StreamState::kClosing), std::memory_order_seq_cst);
  ring_doorbell(data.doorbell);
  if (control_.has_lease(slot)) {
    slots_[slot].deferred = true;
  } else {
    free_stream(slot);
  }
}

void Slab::free_stream(uint32_t slot) {
  // release: a reader that sees it free reports the stream closed, as before.
  control_.stream(slot).state.store(static_cast<uint32_t>(StreamState::kFree),
                                    std::memory_order_release);
  pool_.release(slots_[slot].blocks);
  publish_use();
  slots_[slot] = SlotUse{};
}

void Slab::publish_use() const {
  control_.figures().blocks_used.store(pool_.n_blocks() - pool_.free_blocks(),
                                       std::memory_order_relaxed);
}

uint32_t Slab::reclaim() {
  const std::lock_guard lock(mutex_);
  return reclaim_locked();
}

uint32_t Slab::reclaim_locked() {
  uint32_t freed = 0;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].deferred || control_.has_lease(slot)) continue;
    free_stream(slot);
    ++freed;
  }
  return freed;
}

uint32_t Slab::deferred_streams() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(std::ranges::count(slots_, true, &SlotUse::deferred));
}

uint32_t Slab::free_blocks() const {
  const std::lock_guard lock(mutex_);
  return pool_.free_blocks();
}

uint32_t Slab::open_streams() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(
      std::ranges::count_if(slots_, [](const SlotUse& use) { return use.taken && !use.deferred; }));
}

std::byte* Slab::layer_base(int32_t layer) const {
  return payload_.data() + layer * shape().block_bytes() * int64_t{n_blocks()};
}

}  // namespace suture
