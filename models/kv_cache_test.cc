#include "models/kv_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>

namespace suture {
namespace {

constexpr KvShape kShape = {3, 2, 4, DType::kF16};

class KvCacheTest : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = open_device("cpu", 1).value();
};

TEST_F(KvCacheTest, BlocksOfAllLayersAreApart) {
  auto cache = make_heap_kv_cache(*device_, kShape, 70).value();  // 3 blocks in each layer
  std::set<std::byte*> blocks;
  for (int32_t layer = 0; layer < kShape.n_layers; ++layer) {
    const KvLayerView view = cache->layer_view(layer);
    for (int block = 0; block < 3; ++block)
      blocks.insert(view.base + view.block_ids[block] * kShape.block_bytes());
  }
  ASSERT_EQ(blocks.size(), 9u);
  for (auto next = std::next(blocks.begin()); next != blocks.end(); ++next)
    EXPECT_GE(*next - *std::prev(next), kShape.block_bytes());
}

TEST_F(KvCacheTest, CountsEntriesByLayer) {
  auto cache = make_heap_kv_cache(*device_, kShape, 70).value();
  EXPECT_EQ(cache->capacity(), 70);
  EXPECT_EQ(cache->size(), 0);
  cache->commit(0, 5);
  cache->commit(1, 5);
  EXPECT_EQ(cache->committed(0), 5);
  EXPECT_EQ(cache->committed(2), 0);
  EXPECT_EQ(cache->size(), 0);
  cache->commit(2, 5);
  EXPECT_EQ(cache->size(), 5);
}

TEST_F(KvCacheTest, RefusesCapacitiesThatCannotBe) {
  for (const int64_t capacity :
       {int64_t{0}, int64_t{-1}, int64_t{1} << 40, std::numeric_limits<int64_t>::max()}) {
    const auto cache = make_heap_kv_cache(*device_, kShape, capacity);
    ASSERT_FALSE(cache) << capacity;
  }
}

using KvCacheDeathTest = KvCacheTest;

TEST_F(KvCacheDeathTest, CommittingBeyondTheCapacityIsABrokenInvariant) {
  auto cache = make_heap_kv_cache(*device_, kShape, 70).value();
  EXPECT_DEATH(cache->commit(0, 71), "entries=71 capacity=70");
}

}  // namespace
}  // namespace suture
