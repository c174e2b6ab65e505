#include "bus/slab_figures.h"

#include <algorithm>

namespace suture {
namespace {

// relaxed throughout: figures are for people to look at.
template <typename T>
T value_of(const std::atomic<T>& figure) {
  return figure.load(std::memory_order_relaxed);
}

StreamFigures look_at_stream(const Control& control, uint32_t slot) {
  const StreamSlotData& data = control.stream(slot);
  StreamFigures stream;
  stream.slot = slot;
  stream.request = value_of(data.request);
  stream.state = static_cast<StreamState>(value_of(data.state));
  stream.blocks = std::min(value_of(data.n_blocks), control.max_blocks_per_stream());
  uint64_t tokens = uint64_t{stream.blocks} * kKvBlockTokens;
  for (const std::atomic<uint64_t>& committed : control.committed(slot))
    tokens = std::min(tokens, value_of(committed));
  stream.tokens = static_cast<int64_t>(tokens);
  stream.readers = static_cast<uint32_t>(std::ranges::count_if(
      control.leases(slot),
      [](const std::atomic<uint64_t>& lease) { return value_of(lease) != 0; }));
  return stream;
}

// Blocks that several leased streams share count once.
void mark_leased(const Control& control, const StreamFigures& stream, std::vector<bool>& leased) {
  if (stream.readers == 0) return;
  const auto table = control.block_table(stream.slot).first(stream.blocks);
  for (const std::atomic<uint32_t>& id : table)
    if (const uint32_t block = value_of(id); block < leased.size()) leased[block] = true;
}

OwnerWork known_work(uint32_t work) {
  return work <= static_cast<uint32_t>(OwnerWork::kFollowing) ? static_cast<OwnerWork>(work)
                                                              : OwnerWork::kIdle;
}

}  // namespace

SlabFigures look_at(const Control& control) {
  const OwnerFiguresData& data = control.figures();
  SlabFigures figures;
  figures.work = known_work(value_of(data.work));
  figures.request = value_of(data.request);
  figures.tokens_computed =
      value_of(data.rows_committed) / static_cast<uint64_t>(control.shape().n_layers);
  figures.tokens_generated = value_of(data.tokens_generated);
  figures.waits = value_of(data.waits);
  figures.wait_ns = value_of(data.wait_ns);
  figures.lazily_built = value_of(data.lazily_built);
  figures.heartbeats = control.heartbeats();
  figures.blocks = control.n_blocks();
  figures.blocks_used = std::min(value_of(data.blocks_used), control.n_blocks());
  figures.block_bytes =
      static_cast<uint64_t>(control.shape().block_bytes() * control.shape().n_layers);
  figures.payload_bytes = control.payload_bytes();
  std::vector<bool> leased(control.n_blocks(), false);
  for (uint32_t slot = 0; slot < control.max_streams(); ++slot) {
    const StreamFigures stream = look_at_stream(control, slot);
    if (stream.state == StreamState::kFree) continue;
    mark_leased(control, stream, leased);
    figures.streams.push_back(stream);
  }
  figures.blocks_leased = static_cast<uint32_t>(std::ranges::count(leased, true));
  return figures;
}

}  // namespace suture
