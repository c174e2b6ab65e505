// Accessor of a slab's control memory: counts, stream slots, lease slots, heartbeat.
//
// Owner, readers and broker map the same memory. Counts are copied out of it once, at attach, and
// checked; afterwards each process indexes with its own copy, so that nothing another process
// writes can move an access outside the mapping.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/mapping.h"
#include "base/unique_fd.h"
#include "bus/ids.h"
#include "bus/layout.h"
#include "kernels/kv_layout.h"

namespace suture {

struct ControlOptions {
  KvShape shape;
  uint32_t n_blocks = 0;               // in each layer's arena
  uint32_t max_streams = 0;            // stream slots
  uint32_t max_blocks_per_stream = 0;  // longest block table
  PeerId owner;
};

class Control {
 public:
  // New control memory, sealed SHRINK | GROW. kInvalidArgument if a count is out of bounds.
  static Result<Control> create(const ControlOptions& options);
  // Bytes of control memory and of the payload that belongs to it, with these counts.
  static Result<uint64_t> memory_bytes_for(const ControlOptions& options);
  // Maps control memory received from another process; `fd` stays the caller's. kIncompatible for
  // another layout version, kCorrupt or kPermission for anything that is not sound.
  static Result<Control> attach(int fd);

  // Descriptor of created control memory; -1 after attach.
  int fd() const { return fd_.get(); }
  const KvShape& shape() const { return options_.shape; }
  uint32_t n_blocks() const { return options_.n_blocks; }
  uint32_t max_streams() const { return options_.max_streams; }
  uint32_t max_blocks_per_stream() const { return options_.max_blocks_per_stream; }
  PeerId owner() const { return options_.owner; }
  uint64_t payload_bytes() const { return payload_bytes_; }

  // slot < max_streams()
  StreamSlotData& stream(uint32_t slot) const;
  std::span<std::atomic<uint64_t>> committed(uint32_t slot) const;    // [n_layers] tokens
  std::span<std::atomic<uint64_t>> leases(uint32_t slot) const;       // [kLeasesPerStream] peer ids
  std::span<std::atomic<uint32_t>> block_table(uint32_t slot) const;  // [max_blocks_per_stream]
  // The RoPE epoch of each entry: [max_blocks_per_stream * kKvBlockTokens].
  std::span<std::atomic<uint32_t>> epochs(uint32_t slot) const;

  bool has_lease(uint32_t slot) const;

  // The owner writes, others only read.
  OwnerFiguresData& figures() const;

  // Owner's heartbeat thread.
  void heartbeat() const;
  uint64_t heartbeats() const;
  // A number that changes whenever the owner's heartbeat, a commit, an opening or a closing moved
  // it: unchanged for the hung-process bound means that the owner hangs.
  uint64_t activity() const;
  OwnerState owner_state() const;

  // Broker, once the owner has exited: every open stream becomes lost, every waiter wakes.
  void mark_owner_lost() const;
  // Broker, once the reader has exited: frees its lease slots; returns how many there were.
  uint32_t drop_leases_of(PeerId peer) const;

 private:
  Control(UniqueFd fd, Mapping mapping, const ControlOptions& options);

  ControlHeaderData& header() const;

  UniqueFd fd_;
  Mapping mapping_;
  ControlOptions options_;
  uint64_t payload_bytes_ = 0;
  uint64_t streams_offset_ = 0;
  uint64_t committed_offset_ = 0;
  uint64_t leases_offset_ = 0;
  uint64_t tables_offset_ = 0;
  uint64_t epochs_offset_ = 0;
};

}  // namespace suture
