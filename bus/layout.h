// What lies in memory shared between processes (design §3): fixed-size, standard-layout types of
// atomics and counts, no pointers. A change here is a new kBusLayoutVersion. Per-process accessor
// classes stand in control.h and token_ring.h.
//
// Control memory:    ControlHeaderData
//                    StreamSlotData            [max_streams]
//                    committed  atomic u64     [max_streams][n_layers]
//                    leases     atomic u64     [max_streams][kLeasesPerStream]
//                    block ids  atomic u32     [max_streams][max_blocks_per_stream]
//                    epochs     atomic u32     [max_streams][max_blocks_per_stream][32]
// Token ring memory: TokenRingHeaderData
//                    entries    atomic u64     [capacity]
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace suture {

inline constexpr uint32_t kBusLayoutVersion = 3;
inline constexpr uint64_t kControlMagic = 0x6c74'6372'7475'7375;    // "usutrctl", little-endian
inline constexpr uint64_t kTokenRingMagic = 0x676e'6972'7475'7375;  // "usutring", little-endian
inline constexpr size_t kCacheLine = 64;

// Readers of one stream at one time, all peers together.
inline constexpr uint32_t kLeasesPerStream = 64;

// Bounds that attach accepts; far above any model or topology.
inline constexpr uint32_t kMaxLayers = 1024;
inline constexpr uint32_t kMaxKvHeads = 1024;
inline constexpr uint32_t kMaxHeadDim = 4096;
inline constexpr uint32_t kMaxStreams = 4096;
inline constexpr uint32_t kMaxBlocksPerStream = 1u << 20;
inline constexpr uint32_t kMaxBlocks = 1u << 30;
inline constexpr uint32_t kMaxRingCapacity = 1u << 24;
inline constexpr int64_t kMaxRopeEpoch = int64_t{1} << 31;  // epochs are lengths in positions

// Atomics that two processes use must not hide a lock: it would be private to each.
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint32_t>) == 4 && sizeof(std::atomic<uint64_t>) == 8);

enum class StreamState : uint32_t {
  kFree = 0,     // no stream; the slot may be taken
  kOpen = 1,     // the owner appends
  kClosing = 2,  // closed by its owner; blocks wait for the last lease
  kLost = 3,     // the owner died
};

enum class OwnerState : uint32_t { kAlive = 0, kLost = 1 };

// Wakes waiters in other processes. Protocol in doorbell.h.
struct DoorbellData {
  std::atomic<uint32_t> bell;     // +1 for every event; the futex word
  std::atomic<uint32_t> waiters;  // 0 lets the ringer skip the system call
};
static_assert(std::is_standard_layout_v<DoorbellData> && sizeof(DoorbellData) == 8);

enum class OwnerWork : uint32_t { kIdle = 0, kReading = 1, kGenerating = 2, kFollowing = 3 };

// What the owner has done since its start. It alone writes, with relaxed order, on a line that
// nothing else uses: whoever watches costs it nothing, and sees values of about the same moment.
struct alignas(kCacheLine) OwnerFiguresData {
  std::atomic<uint32_t> work;              // OwnerWork
  std::atomic<uint32_t> blocks_used;       // by streams that are open or still leased
  std::atomic<uint64_t> request;           // worked for at the moment; 0 = none
  std::atomic<uint64_t> rows_committed;    // of any layer: tokens times layers
  std::atomic<uint64_t> tokens_generated;  // drawn, or followed, one by one
  std::atomic<uint64_t> waits;             // for other owners' rows that were not there yet
  std::atomic<uint64_t> wait_ns;           // spent in them
  std::atomic<uint64_t> lazily_built;      // things made on first use
};
static_assert(std::is_standard_layout_v<OwnerFiguresData>);
static_assert(sizeof(OwnerFiguresData) == 64);
static_assert(offsetof(OwnerFiguresData, rows_committed) == 16);

// Counts are written once by the owner before the descriptor leaves its process.
struct alignas(kCacheLine) ControlHeaderData {
  uint64_t magic;
  uint32_t layout_version;
  uint32_t dtype;  // DType of K and V
  uint32_t n_layers;
  uint32_t n_kv_heads;
  uint32_t head_dim;
  uint32_t n_blocks;  // in each layer's arena
  uint32_t max_streams;
  uint32_t max_blocks_per_stream;
  uint64_t owner_peer;
  uint64_t payload_bytes;
  uint64_t control_bytes;
  alignas(kCacheLine) std::atomic<uint64_t> heartbeat;  // +1 by the owner's heartbeat thread
  std::atomic<uint32_t> owner_state;                    // OwnerState
  OwnerFiguresData figures;
};
static_assert(std::is_standard_layout_v<ControlHeaderData>);
static_assert(sizeof(ControlHeaderData) == 192);
static_assert(offsetof(ControlHeaderData, owner_peer) == 40);
static_assert(offsetof(ControlHeaderData, heartbeat) == 64);
static_assert(offsetof(ControlHeaderData, owner_state) == 72);
static_assert(offsetof(ControlHeaderData, figures) == 128);

// The doorbell has a line of its own: waiters write it while the owner reads the rest.
struct alignas(kCacheLine) StreamSlotData {
  std::atomic<uint64_t> generation;
  std::atomic<uint32_t> state;     // StreamState
  std::atomic<uint32_t> n_blocks;  // length of the block table
  std::atomic<uint64_t> request;   // that the stream belongs to; 0 = none, a context for all
  alignas(kCacheLine) DoorbellData doorbell;
};
static_assert(std::is_standard_layout_v<StreamSlotData>);
static_assert(sizeof(StreamSlotData) == 128);
static_assert(offsetof(StreamSlotData, state) == 8);
static_assert(offsetof(StreamSlotData, request) == 16);
static_assert(offsetof(StreamSlotData, doorbell) == 64);

enum class RingState : uint32_t { kRunning = 0, kFinished = 1, kLost = 2 };

struct alignas(kCacheLine) TokenRingHeaderData {
  uint64_t magic;
  uint32_t layout_version;
  uint32_t capacity;                                   // entries
  alignas(kCacheLine) std::atomic<uint64_t> produced;  // tokens pushed since the start
  std::atomic<uint32_t> state;                         // RingState
  std::atomic<uint32_t> reason;                        // meaning belongs to the caller
  alignas(kCacheLine) DoorbellData token_bell;         // rung by the producer
  alignas(kCacheLine) std::atomic<uint64_t> credit;    // the producer may push tokens < credit
  std::atomic<uint32_t> cancelled;                     // 1: a consumer wants no more tokens
  alignas(kCacheLine) DoorbellData credit_bell;        // rung by consumers
};
static_assert(std::is_standard_layout_v<TokenRingHeaderData>);
static_assert(sizeof(TokenRingHeaderData) == 320);
static_assert(offsetof(TokenRingHeaderData, produced) == 64);
static_assert(offsetof(TokenRingHeaderData, token_bell) == 128);
static_assert(offsetof(TokenRingHeaderData, credit) == 192);
static_assert(offsetof(TokenRingHeaderData, credit_bell) == 256);

}  // namespace suture
