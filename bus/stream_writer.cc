#include "bus/stream_writer.h"

#include "base/check.h"
#include "bus/doorbell.h"
#include "bus/slab.h"

namespace suture {

StreamWriter::StreamWriter(std::shared_ptr<Slab> slab, StreamId id, StreamInfo info,
                           std::vector<uint32_t> blocks, std::vector<uint32_t> epochs,
                           int64_t committed_tokens)
    : slab_(std::move(slab)),
      id_(id),
      info_(std::move(info)),
      blocks_(std::move(blocks)),
      committed_(static_cast<size_t>(info_.shape.n_layers), committed_tokens),
      epochs_(std::move(epochs)) {}

StreamWriter::~StreamWriter() { close(); }

int64_t StreamWriter::capacity() const {
  return static_cast<int64_t>(blocks_.size()) * kKvBlockTokens;
}

KvLayerView StreamWriter::layer_view(int32_t layer) const {
  SUTURE_CHECK(!closed_ && layer >= 0 && layer < n_layers(), "closed={} layer={} of {}", closed_,
               layer, n_layers());
  return KvLayerView{slab_->layer_base(layer), blocks_.data()};
}

void StreamWriter::commit(int32_t layer, int64_t tokens) {
  SUTURE_CHECK(!closed_ && layer >= 0 && layer < n_layers(), "closed={} layer={} of {}", closed_,
               layer, n_layers());
  int64_t& committed = committed_[static_cast<size_t>(layer)];
  SUTURE_CHECK(tokens >= committed && tokens <= capacity(), "commit {} after {}, capacity {}",
               tokens, committed, capacity());
  bytes_published_ +=
      static_cast<uint64_t>((tokens - committed) * shape().token_bytes() / shape().n_layers);
  const Control& control = slab_->control();
  // relaxed, here and for every figure: nothing is read on the strength of it.
  control.figures().rows_committed.fetch_add(static_cast<uint64_t>(tokens - committed),
                                             std::memory_order_relaxed);
  committed = tokens;
  // release: the rows are written before a reader that acquires the count reads them.
  control.committed(id_.slot)[static_cast<size_t>(layer)].store(static_cast<uint64_t>(tokens),
                                                                std::memory_order_release);
  ring_doorbell(control.stream(id_.slot).doorbell);
}

int64_t StreamWriter::committed(int32_t layer) const {
  SUTURE_CHECK(layer >= 0 && layer < n_layers(), "layer={} of {}", layer, n_layers());
  return committed_[static_cast<size_t>(layer)];
}

void StreamWriter::set_rope_epoch(int64_t first, int64_t n, int64_t epoch) {
  SUTURE_CHECK(!closed_ && first >= committed(0) && n >= 0 && first + n <= capacity() &&
                   epoch >= 0 && epoch <= UINT32_MAX,
               "closed={} first={} n={} committed={} capacity={} epoch={}", closed_, first, n,
               committed(0), capacity(), epoch);
  const auto shared = slab_->control().epochs(id_.slot);
  for (auto token = static_cast<size_t>(first); token < static_cast<size_t>(first + n); ++token) {
    epochs_[token] = static_cast<uint32_t>(epoch);
    // relaxed: readers look after they have acquired the count that covers the token.
    shared[token].store(epochs_[token], std::memory_order_relaxed);
  }
}

int64_t StreamWriter::rope_epoch(int64_t token) const {
  return epochs_.at(static_cast<size_t>(token));
}

void StreamWriter::set_request(uint64_t request) {
  slab_->control().stream(id_.slot).request.store(request, std::memory_order_relaxed);
}

void StreamWriter::close() {
  if (closed_) return;
  closed_ = true;
  slab_->close_stream(id_.slot);
}

}  // namespace suture
