// Which blocks of a slab are free, and how many streams hold each of the others. Lives in the
// owner's own memory: no other process can damage it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"

namespace suture {

// A closed stream keeps its references until its last lease ends, so a block under a lease is never
// free and never given out. Not thread-safe: the slab locks.
class BlockPool {
 public:
  explicit BlockPool(uint32_t n_blocks);

  // `count` blocks with one reference each, or none of them: kOutOfMemory with free and needed.
  Result<std::vector<uint32_t>> allocate(uint32_t count);
  // One more reference for each block; each must be in use.
  void retain(std::span<const uint32_t> blocks);
  // One reference less for each block; a block without references is free.
  void release(std::span<const uint32_t> blocks);

  uint32_t n_blocks() const { return static_cast<uint32_t>(references_.size()); }
  uint32_t free_blocks() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t references(uint32_t block) const;

 private:
  std::vector<uint32_t> references_;  // [n_blocks]
  std::vector<uint32_t> free_;        // a stack
};

}  // namespace suture
