#include "bus/block_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace suture {
namespace {

TEST(BlockPoolTest, GivesEveryBlockOnce) {
  BlockPool pool(8);
  const auto first = pool.allocate(5);
  const auto second = pool.allocate(3);
  ASSERT_TRUE(first && second);
  std::set<uint32_t> all(first->begin(), first->end());
  all.insert(second->begin(), second->end());
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(*all.rbegin(), 7u);
  EXPECT_EQ(pool.free_blocks(), 0u);
}

TEST(BlockPoolTest, RefusesWholeRequestsWithTheNumbers) {
  BlockPool pool(8);
  ASSERT_TRUE(pool.allocate(6));
  const auto refused = pool.allocate(3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(refused.error().what.find("needs 3 K/V blocks, 2 of 8 are free"), std::string::npos)
      << refused.error().what;
  EXPECT_EQ(pool.free_blocks(), 2u);
}

TEST(BlockPoolTest, SharedBlocksAreFreeAfterTheLastRelease) {
  BlockPool pool(4);
  const std::vector<uint32_t> blocks = pool.allocate(4).value();
  pool.retain(blocks);
  pool.release(blocks);
  EXPECT_EQ(pool.free_blocks(), 0u);
  EXPECT_EQ(pool.references(blocks[0]), 1u);
  pool.release(std::span(blocks).first(3));
  EXPECT_EQ(pool.free_blocks(), 3u);
  EXPECT_EQ(pool.references(blocks[3]), 1u);
}

TEST(BlockPoolDeathTest, ReleasingAFreeBlockIsABrokenInvariant) {
  BlockPool pool(4);
  const std::vector<uint32_t> blocks = pool.allocate(1).value();
  pool.release(blocks);
  EXPECT_DEATH(pool.release(blocks), "is free");
  EXPECT_DEATH(pool.retain(blocks), "is free");
}

}  // namespace
}  // namespace suture
