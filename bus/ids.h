// Names of processes and streams on the bus.
#pragma once

#include <compare>
#include <cstdint>

namespace suture {

// One process (or in-process actor) of a launch. Assigned by the broker, never reused within a
// launch, never 0: a lease slot that holds 0 is free.
struct PeerId {
  uint64_t value = 0;

  bool valid() const { return value != 0; }
  auto operator<=>(const PeerId&) const = default;  // NOLINT(modernize-use-nullptr): clang 14
};

// One stream of one slab. A slot serves one stream after another; the generation says which, and is
// never used again within a launch, by this owner or by another.
struct StreamId {
  uint32_t slot = 0;
  uint64_t generation = 0;

  bool operator==(const StreamId&) const = default;
};

}  // namespace suture
