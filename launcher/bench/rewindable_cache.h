// K/V that a benchmark uses again and again: entries can be taken back, which no model ever does.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "models/kv_cache.h"

namespace suture {

class RewindableCache final : public KvCache {
 public:
  explicit RewindableCache(std::unique_ptr<KvCache> memory)
      : memory_(std::move(memory)), committed_(static_cast<size_t>(memory_->shape().n_layers), 0) {}

  // At most `entries` of them stay.
  void rewind(int64_t entries) {
    for (int64_t& committed : committed_) committed = std::min(committed, entries);
  }

  const KvShape& shape() const override { return memory_->shape(); }
  int64_t capacity() const override { return memory_->capacity(); }
  int64_t committed(int32_t layer) const override {
    return committed_.at(static_cast<size_t>(layer));
  }
  KvLayerView layer_view(int32_t layer) override { return memory_->layer_view(layer); }
  void commit(int32_t layer, int64_t entries) override {
    int64_t& committed = committed_.at(static_cast<size_t>(layer));
    committed = std::max(committed, entries);
  }
  void set_rope_epoch(int64_t first, int64_t n, int64_t epoch) override {
    memory_->set_rope_epoch(first, n, epoch);
  }
  int64_t rope_epoch(int64_t entry) const override { return memory_->rope_epoch(entry); }

 private:
  std::unique_ptr<KvCache> memory_;
  std::vector<int64_t> committed_;  // [n_layers] entries
};

}  // namespace suture
