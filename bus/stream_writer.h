// The owner's end of a stream: append rows, then publish them layer by layer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bus/ids.h"
#include "bus/stream_info.h"
#include "kernels/kv_layout.h"

namespace suture {

class Slab;

// Used by one thread at a time.
class StreamWriter {
 public:
  ~StreamWriter();  // closes
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  StreamId id() const { return id_; }
  const StreamInfo& info() const { return info_; }
  int64_t capacity() const;  // tokens, a multiple of kKvBlockTokens
  int32_t n_layers() const { return info_.shape.n_layers; }
  const KvShape& shape() const { return info_.shape; }

  // Writable rows of one layer. Only rows at or after committed(layer) may be written.
  KvLayerView layer_view(int32_t layer) const;

  // Publishes rows [committed(layer), tokens) of this layer; wakes waiting readers.
  void commit(int32_t layer, int64_t tokens);
  int64_t committed(int32_t layer) const;
  // The RoPE epoch of tokens [first, first + n), which are not yet committed in any layer.
  void set_rope_epoch(int64_t first, int64_t n, int64_t epoch);
  int64_t rope_epoch(int64_t token) const;
  // Bytes of K and V published so far, all layers together.
  uint64_t bytes_published() const { return bytes_published_; }

  // Shown to whoever watches the slab (bus/slab_figures.h); 0 at first.
  void set_request(uint64_t request);

  // No reader can attach any more and waiting readers wake. Blocks under a lease are recycled when
  // the lease ends, the others now.
  void close();
  bool closed() const { return closed_; }

 private:
  friend class Slab;

  StreamWriter(std::shared_ptr<Slab> slab, StreamId id, StreamInfo info,
               std::vector<uint32_t> blocks, std::vector<uint32_t> epochs,
               int64_t committed_tokens);

  std::shared_ptr<Slab> slab_;
  StreamId id_;
  StreamInfo info_;
  std::vector<uint32_t> blocks_;    // block table
  std::vector<int64_t> committed_;  // [n_layers]; the owner never trusts the shared copy
  std::vector<uint32_t> epochs_;    // [capacity] likewise
  uint64_t bytes_published_ = 0;
  bool closed_ = false;
};

}  // namespace suture
