#include "bus/block_pool.h"

#include <fmt/format.h>

#include <numeric>

#include "base/check.h"

namespace suture {

BlockPool::BlockPool(uint32_t n_blocks) : references_(n_blocks, 0), free_(n_blocks) {
  // Descending, so that the lowest block is on top and streams begin at the start of the arena.
  std::iota(free_.rbegin(), free_.rend(), 0u);
}

Result<std::vector<uint32_t>> BlockPool::allocate(uint32_t count) {
  if (count > free_.size())
    return fail(ErrorCode::kOutOfMemory,
                fmt::format("the stream needs {} K/V blocks, {} of {} are free", count,
                            free_.size(), references_.size()),
                "bus", "retry when a request has ended, or raise max_sequences");
  std::vector<uint32_t> blocks(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  for (const uint32_t block : blocks) references_[block] = 1;
  return blocks;
}

void BlockPool::retain(std::span<const uint32_t> blocks) {
  for (const uint32_t block : blocks) {
    SUTURE_CHECK(references(block) > 0, "block {} is free", block);
    ++references_[block];
  }
}

void BlockPool::release(std::span<const uint32_t> blocks) {
  for (const uint32_t block : blocks) {
    SUTURE_CHECK(references(block) > 0, "block {} is free", block);
    if (--references_[block] == 0) free_.push_back(block);
  }
}

uint32_t BlockPool::references(uint32_t block) const {
  SUTURE_CHECK(block < references_.size(), "block={} of {}", block, references_.size());
  return references_[block];
}

}  // namespace suture
