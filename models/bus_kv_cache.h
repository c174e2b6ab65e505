// A K/V cache that is published on the bus while it is written.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "bus/stream_writer.h"
#include "models/kv_cache.h"

namespace suture {

class BusKvCache final : public KvCache {
 public:
  explicit BusKvCache(std::unique_ptr<StreamWriter> writer) : writer_(std::move(writer)) {}

  StreamWriter& writer() { return *writer_; }

  const KvShape& shape() const override { return writer_->shape(); }
  int64_t capacity() const override { return writer_->capacity(); }
  int64_t committed(int32_t layer) const override { return writer_->committed(layer); }
  KvLayerView layer_view(int32_t layer) override { return writer_->layer_view(layer); }
  void commit(int32_t layer, int64_t entries) override { writer_->commit(layer, entries); }
  void set_rope_epoch(int64_t first, int64_t n, int64_t epoch) override {
    writer_->set_rope_epoch(first, n, epoch);
  }
  int64_t rope_epoch(int64_t entry) const override { return writer_->rope_epoch(entry); }

 private:
  std::unique_ptr<StreamWriter> writer_;
};

}  // namespace suture
