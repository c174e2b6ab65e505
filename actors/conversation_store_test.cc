#include "actors/conversation_store.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

KeptStream stream(uint64_t key, int64_t tokens, int64_t shared_blocks = 0) {
  return {key, std::vector<int32_t>(static_cast<size_t>(tokens), 7), shared_blocks};
}

// Conversations 1, 2 and 3 with 3 blocks each in models 0 and 1; 2 has been silent longest.
ConversationStore three() {
  ConversationStore store;
  for (const uint64_t id : {1, 2, 3}) {
    store.keep(id, 0, stream(10 * id, 96));
    store.keep(id, 1, stream(10 * id + 1, 65));
  }
  store.touch(2);
  store.touch(3);
  store.touch(1);
  return store;
}

TEST(ConversationStoreTest, ATurnTakesThePlaceOfTheOneBefore) {
  ConversationStore store;
  EXPECT_EQ(store.find(1, 0), nullptr);
  EXPECT_EQ(store.keep(1, 0, stream(4, 10)), std::nullopt);
  EXPECT_EQ(store.keep(1, 0, stream(6, 20)), (DroppedStream{0, 4}));
  ASSERT_NE(store.find(1, 0), nullptr);
  EXPECT_EQ(store.find(1, 0)->key, 6u);
  EXPECT_EQ(store.find(1, 1), nullptr);
  EXPECT_EQ(store.find(2, 0), nullptr);
  EXPECT_EQ(store.release(1), (std::vector<DroppedStream>{{0, 6}}));
  EXPECT_TRUE(store.release(1).empty());
}

TEST(ConversationStoreTest, NothingGoesWhileThereIsRoom) {
  ConversationStore store = three();
  const KvRoom room{
      .model = 0, .blocks_needed = 4, .streams_needed = 2, .blocks = 13, .streams = 5};
  EXPECT_TRUE(store.make_room({&room, 1}, {9}).empty());
}

TEST(ConversationStoreTest, TheOneThatWasSilentLongestGoesFirstWithAllItsStreams) {
  ConversationStore store = three();
  KvRoom room{.model = 0, .blocks_needed = 4, .streams_needed = 2, .blocks = 12, .streams = 99};
  EXPECT_EQ(store.make_room({&room, 1}, {9}), (std::vector<DroppedStream>{{0, 20}, {1, 21}}));
  EXPECT_EQ(store.find(2, 1), nullptr);
  room.blocks = 99;
  room.streams = 3;  // 2 + conversations 1 and 3
  EXPECT_EQ(store.make_room({&room, 1}, {9}), (std::vector<DroppedStream>{{0, 30}, {1, 31}}));
}

TEST(ConversationStoreTest, AnyModelCanBeShort) {
  ConversationStore store = three();
  const KvRoom rooms[] = {{.model = 0, .blocks_needed = 1, .blocks = 99, .streams = 99},
                          {.model = 1, .blocks_needed = 1, .blocks = 9, .streams = 99}};
  EXPECT_EQ(store.make_room(rooms, {9}).size(), 2u);
}

TEST(ConversationStoreTest, TheAskingConversationStaysAndTheRestIsFinite) {
  ConversationStore store = three();
  const KvRoom room{.model = 0, .blocks_needed = 1000, .blocks = 10, .streams = 99};
  EXPECT_EQ(store.make_room({&room, 1}, {2}).size(), 4u);
  EXPECT_NE(store.find(2, 0), nullptr);
}

TEST(ConversationStoreTest, WhetherSilentOnesWouldBeEnoughIsKnownBefore) {
  const ConversationStore store = three();
  KvRoom room{.model = 0, .blocks_needed = 4, .streams_needed = 2, .blocks = 4, .streams = 99};
  EXPECT_TRUE(store.can_make_room({&room, 1}, {9}));
  EXPECT_FALSE(store.can_make_room({&room, 1}, {9, 2}));
  room.blocks = 3;
  EXPECT_FALSE(store.can_make_room({&room, 1}, {9}));
  EXPECT_NE(store.find(1, 0), nullptr);
}

TEST(ConversationStoreTest, BlocksOfTheContextCountOnce) {
  ConversationStore store;
  store.keep(1, 0, stream(10, 96, 2));
  const KvRoom room{.model = 0, .blocks_needed = 4, .blocks = 5, .streams = 9};
  EXPECT_TRUE(store.make_room({&room, 1}, {9}).empty());
}

TEST(ConversationStoreTest, WhatAProcessKeptIsGoneWithItAndThePlacesStay) {
  ConversationStore store = three();
  store.set_placed(1, {4, 5});
  store.forget_model(0);
  EXPECT_EQ(store.find(1, 0), nullptr);
  EXPECT_NE(store.find(1, 1), nullptr);
  ASSERT_NE(store.placed(1), nullptr);
  EXPECT_EQ(*store.placed(1), (std::set<size_t>{4, 5}));
  EXPECT_EQ(store.placed(2), nullptr);
}

}  // namespace
}  // namespace suture
