// A slab as somebody sees who watches it: what its owner does, and who uses its blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "bus/control.h"
#include "bus/layout.h"

namespace suture {

struct StreamFigures {
  uint32_t slot = 0;
  uint64_t request = 0;  // 0 = a context that serves all requests
  StreamState state = StreamState::kFree;
  int64_t tokens = 0;    // committed in every layer
  uint32_t blocks = 0;   // reserved for it; blocks that it shares with another stream included
  uint32_t readers = 0;  // that hold a lease
};

struct SlabFigures {
  OwnerWork work = OwnerWork::kIdle;
  uint64_t request = 0;           // worked for at the moment; 0 = none
  uint64_t tokens_computed = 0;   // since the start: read, generated or followed
  uint64_t tokens_generated = 0;  // of these, the ones that came one by one
  uint64_t waits = 0;             // for other owners' rows
  uint64_t wait_ns = 0;
  uint64_t lazily_built = 0;
  uint64_t heartbeats = 0;
  uint32_t blocks = 0;         // in all
  uint32_t blocks_used = 0;    // of open streams, and of closed ones under a lease
  uint32_t blocks_leased = 0;  // that some reader may look at now
  uint64_t block_bytes = 0;    // of one block in all layers
  uint64_t payload_bytes = 0;
  std::vector<StreamFigures> streams;  // slots that are not free
};

// A few loads from shared memory; the owner is not disturbed. The values are of about the same
// moment, not exactly: numbers that do not fit together for one look are possible and harmless.
SlabFigures look_at(const Control& control);

}  // namespace suture
