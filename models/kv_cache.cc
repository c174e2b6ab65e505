#include "models/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/checked_math.h"

namespace suture {
namespace {

// One arena of n_layers * n_blocks blocks and one block table that counts 0, 1, 2, ...
class HeapKvCache final : public KvCache {
 public:
  HeapKvCache(const KvShape& shape, int64_t capacity, std::unique_ptr<Buffer> arena,
              std::unique_ptr<Buffer> block_ids)
      : shape_(shape),
        capacity_(capacity),
        arena_(std::move(arena)),
        block_ids_(std::move(block_ids)),
        committed_(static_cast<size_t>(shape.n_layers), 0),
        epochs_(static_cast<size_t>(capacity), 0) {}

  const KvShape& shape() const override { return shape_; }
  int64_t capacity() const override { return capacity_; }
  int64_t committed(int32_t layer) const override { return committed_.at(layer); }
  KvLayerView layer_view(int32_t layer) override {
    const int64_t layer_bytes = kv_blocks_for(capacity_) * shape_.block_bytes();
    return {arena_->data() + layer * layer_bytes, block_ids_->as<uint32_t>()};
  }
  void commit(int32_t layer, int64_t entries) override {
    SUTURE_CHECK(entries <= capacity_, "entries={} capacity={}", entries, capacity_);
    committed_.at(layer) = std::max(committed_.at(layer), entries);
  }
  void set_rope_epoch(int64_t first, int64_t n, int64_t epoch) override {
    SUTURE_CHECK(first >= 0 && n >= 0 && first + n <= capacity_ && epoch <= UINT32_MAX,
                 "first={} n={} capacity={} epoch={}", first, n, capacity_, epoch);
    std::fill_n(epochs_.begin() + first, n, static_cast<uint32_t>(epoch));
  }
  int64_t rope_epoch(int64_t entry) const override {
    return epochs_.at(static_cast<size_t>(entry));
  }

 private:
  KvShape shape_;
  int64_t capacity_;                   // entries
  std::unique_ptr<Buffer> arena_;      // [n_layers][n_blocks] blocks
  std::unique_ptr<Buffer> block_ids_;  // [n_blocks] uint32
  std::vector<int64_t> committed_;     // [n_layers] entries
  std::vector<uint32_t> epochs_;       // [capacity]
};

}  // namespace

Result<std::unique_ptr<KvCache>> make_heap_kv_cache(Device& device, const KvShape& shape,
                                                    int64_t capacity) {
  constexpr int64_t kMaxEntries = int64_t{1} << 32;
  const bool possible = capacity >= 1 && capacity <= kMaxEntries && shape.n_layers >= 1;
  const int64_t n_blocks = possible ? kv_blocks_for(capacity) : 0;
  const auto bytes =
      checked_product({static_cast<uint64_t>(n_blocks), static_cast<uint64_t>(shape.n_layers),
                       static_cast<uint64_t>(shape.block_bytes())});
  if (!possible || !bytes)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a K/V cache of {} entries in {} layers cannot be made", capacity,
                            shape.n_layers));
  SUTURE_ASSIGN_OR_RETURN(auto arena, device.allocate(*bytes));
  SUTURE_ASSIGN_OR_RETURN(auto block_ids,
                          device.allocate(static_cast<size_t>(n_blocks) * sizeof(uint32_t)));
  std::vector<uint32_t> ids(static_cast<size_t>(n_blocks));
  std::iota(ids.begin(), ids.end(), 0u);
  SUTURE_ASSIGN_OR_RETURN(auto stream, device.make_stream());
  SUTURE_RETURN_IF_ERROR(stream->copy_to_device(block_ids->data(), std::as_bytes(std::span(ids))));
  SUTURE_RETURN_IF_ERROR(stream->synchronize());
  return std::make_unique<HeapKvCache>(shape, capacity, std::move(arena), std::move(block_ids));
}

}  // namespace suture
