// The KV memory of one model: payload, control memory and block pool, and the streams in them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/error.h"
#include "bus/block_pool.h"
#include "bus/control.h"
#include "bus/ids.h"
#include "bus/payload.h"
#include "bus/stream_info.h"
#include "bus/stream_writer.h"
#include "kernels/kv_layout.h"

namespace suture {

// Stream slots for each sequence: documents and kept turns stay open beside requests.
inline constexpr int32_t kStreamsPerSequence = 4;

struct SlabOptions {
  KvShape shape;
  int64_t max_seq_len = 8192;  // tokens of the longest stream
  int32_t max_sequences = 4;   // of that length; also bounds the stream slots
  PeerId owner;
};

// All methods may be called from any thread of the owner. Writers keep the slab alive.
class Slab : public std::enable_shared_from_this<Slab> {
 public:
  static Result<std::shared_ptr<Slab>> create(const SlabOptions& options);
  // Bytes of payload and control memory that create() would allocate.
  static Result<uint64_t> memory_bytes_for(const SlabOptions& options);

  // Reserves the blocks of `max_tokens` tokens now, so that nothing is allocated while decoding.
  // kOutOfMemory with free and needed blocks, kBusy if all stream slots are taken, kInvalidArgument
  // if the stream is longer than max_seq_len, kIncompatible if info.shape is not the slab's.
  Result<std::unique_ptr<StreamWriter>> open_stream(const StreamInfo& info, int64_t max_tokens);

  // A stream that starts with the first `prefix_tokens` tokens of `parent`, committed in all
  // layers. Full blocks are shared, a part-filled last one is copied. `parent` must belong to this
  // slab and have committed that many tokens in every layer.
  Result<std::unique_ptr<StreamWriter>> fork_stream(const StreamWriter& parent,
                                                    int64_t prefix_tokens, const StreamInfo& info,
                                                    int64_t max_tokens);

  // Frees the blocks of closed streams whose last lease has ended; returns how many streams there
  // were. Opening a stream does this first.
  uint32_t reclaim();
  // Closed streams that still wait for a lease to end.
  uint32_t deferred_streams() const;

  const KvShape& shape() const { return control_.shape(); }
  uint32_t n_blocks() const { return control_.n_blocks(); }
  uint32_t free_blocks() const;
  uint32_t open_streams() const;
  int payload_fd() const { return payload_.fd(); }
  int control_fd() const { return control_.fd(); }
  uint64_t payload_bytes() const { return payload_.size(); }
  void heartbeat() const { control_.heartbeat(); }
  const Control& control() const { return control_; }

 private:
  friend class StreamWriter;

  struct SlotUse {
    bool taken = false;
    bool deferred = false;         // closed, waits for the end of a lease
    std::vector<uint32_t> blocks;  // references held by this slot's stream
  };

  Slab(Payload payload, Control control, int64_t max_seq_len);

  Result<uint32_t> blocks_needed(const StreamInfo& info, int64_t max_tokens) const;
  Result<uint32_t> free_slot() const;
  std::unique_ptr<StreamWriter> publish(uint32_t slot, std::vector<uint32_t> blocks,
                                        const StreamInfo& info,
                                        std::span<const uint32_t> committed_epochs);
  void copy_rows(uint32_t from_block, uint32_t to_block, int64_t rows) const;
  void close_stream(uint32_t slot);
  void free_stream(uint32_t slot);
  void publish_use() const;
  uint32_t reclaim_locked();
  std::byte* layer_base(int32_t layer) const;

  Payload payload_;
  Control control_;
  int64_t max_seq_len_ = 0;
  mutable std::mutex mutex_;  // guards all below
  BlockPool pool_;
  std::vector<SlotUse> slots_;  // [max_streams]
  uint64_t next_generation_;    // never reused in this launch
};

}  // namespace suture
