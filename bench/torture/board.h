// What the processes of bus_torture share beside the bus: who does what, what was counted, and what
// the parent wants next. One mapping, which outlives every child.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "bus/ids.h"
#include "bus/layout.h"

namespace suture::torture {

inline constexpr int kOwners = 2;
inline constexpr int kReaders = 3;
inline constexpr int kChildren = kOwners + kReaders;  // owners first
inline constexpr int kRefs = 12;                      // stream slots of one slab
inline constexpr int kErrorCodes = static_cast<int>(ErrorCode::kBusy) + 1;

// What the parent wants. A command is a serial number with one of these in its lowest two bits.
enum class Phase : uint64_t {
  kWork = 0,
  kRelease = 1,  // owners close their streams, readers hold no lease; then wait
  kCount = 2,    // owners count their free blocks; then wait
};

// How a reader finds a stream, and what must stand in its rows.
struct StreamRef {
  PeerId owner;
  StreamId id;
  uint64_t parent_generation = 0;  // rows below `prefix` are this stream's
  int64_t prefix = 0;
};

// A StreamRef for others to read while it changes. Closed streams stay: stale references are
// wanted.
struct StreamRefData {
  std::atomic<uint64_t> version;  // odd while it changes
  std::atomic<uint64_t> owner;
  std::atomic<uint64_t> generation;
  std::atomic<uint64_t> parent_generation;
  std::atomic<uint32_t> slot;
  std::atomic<uint32_t> prefix;
};

void write_ref(StreamRefData& data, const StreamRef& ref);
// Nothing while there is none, or it changes.
std::optional<StreamRef> read_ref(const StreamRefData& data);

// An event that happened to one incarnation, and when.
struct EventData {
  std::atomic<int64_t> ns;
  std::atomic<uint64_t> peer;  // written last

  void set(PeerId who);
  bool happened_to(PeerId who) const;
};

// Of one child and all its incarnations.
struct alignas(kCacheLine) ChildData {
  DoorbellData bell;               // rung after every step
  std::atomic<uint64_t> progress;  // steps of this incarnation
  std::atomic<uint64_t> peer;
  std::atomic<uint64_t> acknowledged;  // the command that was obeyed last
  // Owners.
  std::array<StreamRefData, kRefs> refs;
  std::atomic<uint64_t> ring_file;      // inode of the ring that ring_start belongs to
  std::atomic<uint64_t> ring_start;     // its first token's place among all tokens of this owner
  std::atomic<uint64_t> ring_consumed;  // tokens of all incarnations that were read and right
  std::atomic<uint64_t> blocks, blocks_free, streams_deferred;  // at the last count
  // Readers, by owner.
  std::array<std::atomic<uint64_t>, kOwners> mapped;  // incarnation whose slab is mapped
  std::array<EventData, kOwners> lost;                // learnt that this incarnation has died
  std::array<EventData, kOwners> first_rows;          // read from this incarnation
  EventData first_check;                              // of this reader's own incarnation
};

// Of all children together.
struct alignas(kCacheLine) CountsData {
  std::atomic<uint64_t> streams, forks, fills, commits;
  std::atomic<uint64_t> attaches, rows, tokens, stale_tries;
  std::atomic<uint64_t> wrong_bytes, strange_errors, hangs, complaints;
  std::array<std::atomic<uint64_t>, kErrorCodes> errors;
};

struct BoardData {
  std::array<char, 128> address;  // of the broker
  std::array<char, 64> secret;
  int64_t wait_bound_ns;
  alignas(kCacheLine) std::atomic<uint64_t> command;
  DoorbellData command_bell;
  alignas(kCacheLine) DoorbellData events;  // acknowledged, lost, first_rows, first_check
  CountsData counts;
  std::array<ChildData, kChildren> children;
};

int64_t now_ns();

}  // namespace suture::torture
