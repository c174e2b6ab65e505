#include "bus/slab_figures.h"

#include <gtest/gtest.h>

#include "bus/slab.h"
#include "bus/stream_reader.h"
#include "bus/test_streams.h"

namespace suture {
namespace {

constexpr PeerId kReader{2};

// 2 sequences of 128 tokens: 8 blocks.
std::shared_ptr<Slab> small_slab() {
  return Slab::create(
             {.shape = small_shape(), .max_seq_len = 128, .max_sequences = 2, .owner = PeerId{1}})
      .value();
}

void commit_all(StreamWriter& writer, int64_t tokens) {
  for (int32_t layer = 0; layer < writer.n_layers(); ++layer) writer.commit(layer, tokens);
}

class SlabFiguresTest : public testing::Test {
 protected:
  // As another process sees it.
  SlabFigures look() const { return look_at(view_->control()); }

  std::shared_ptr<Slab> slab_ = small_slab();
  std::shared_ptr<SlabView> view_ =
      SlabView::map(slab_->payload_fd(), slab_->control_fd(), kReader).value();
};

TEST_F(SlabFiguresTest, ANewSlabIsIdleAndEmpty) {
  const SlabFigures seen = look();
  EXPECT_EQ(seen.work, OwnerWork::kIdle);
  EXPECT_EQ(seen.blocks, 8u);
  EXPECT_EQ(seen.blocks_used, 0u);
  EXPECT_EQ(seen.blocks_leased, 0u);
  EXPECT_EQ(seen.block_bytes, 3u * 4096u);
  EXPECT_EQ(seen.payload_bytes, 8u * 3u * 4096u);
  EXPECT_TRUE(seen.streams.empty());
}

TEST_F(SlabFiguresTest, StreamsBlocksAndLeasesFollowTheOwnerAndItsReaders) {
  auto stream = slab_->open_stream(small_info(), 96).value();
  stream->set_request(9);
  commit_all(*stream, 40);
  SlabFigures seen = look();
  EXPECT_EQ(seen.blocks_used, 3u);
  EXPECT_EQ(seen.blocks_leased, 0u);
  EXPECT_EQ(seen.tokens_computed, 40u);
  ASSERT_EQ(seen.streams.size(), 1u);
  EXPECT_EQ(seen.streams[0].request, 9u);
  EXPECT_EQ(seen.streams[0].tokens, 40);
  EXPECT_EQ(seen.streams[0].blocks, 3u);
  EXPECT_EQ(seen.streams[0].readers, 0u);

  auto reader = std::make_unique<StreamReader>(view_->attach(stream->id()).value());
  EXPECT_EQ(look().blocks_leased, 3u);
  EXPECT_EQ(look().streams[0].readers, 1u);
  // Closed, but not free before its reader has gone.
  stream.reset();
  seen = look();
  ASSERT_EQ(seen.streams.size(), 1u);
  EXPECT_EQ(seen.streams[0].state, StreamState::kClosing);
  EXPECT_EQ(seen.blocks_used, 3u);
  reader.reset();
  slab_->reclaim();
  seen = look();
  EXPECT_TRUE(seen.streams.empty());
  EXPECT_EQ(seen.blocks_used, 0u);
  EXPECT_EQ(seen.blocks_leased, 0u);
  EXPECT_EQ(seen.tokens_computed, 40u) << "what was done stays counted";
}

TEST_F(SlabFiguresTest, SharedBlocksAreUsedOnceAndLeasedOnce) {
  const auto parent = slab_->open_stream(small_info(), 96).value();
  commit_all(*parent, 64);
  const auto fork = slab_->fork_stream(*parent, 64, small_info(), 96).value();
  EXPECT_EQ(look().blocks_used, 4u) << "two shared, one more each";
  const StreamReader first = view_->attach(parent->id()).value();
  const StreamReader second = view_->attach(fork->id()).value();
  EXPECT_EQ(look().blocks_leased, 4u);
  EXPECT_EQ(look().tokens_computed, 64u) << "what a fork takes over is not computed again";
}

TEST_F(SlabFiguresTest, NonsenseFromAnotherProcessStaysInBounds) {
  const auto stream = slab_->open_stream(small_info(), 96).value();
  const StreamReader reader = view_->attach(stream->id()).value();
  const uint32_t slot = stream->id().slot;
  const Control& control = slab_->control();
  control.stream(slot).n_blocks.store(0xffff'ffff);
  for (std::atomic<uint32_t>& id : control.block_table(slot)) id.store(0xffff'fff0);
  for (std::atomic<uint64_t>& committed : control.committed(slot)) committed.store(~uint64_t{0});
  control.figures().work.store(77);
  control.figures().blocks_used.store(0xffff'ffff);
  const SlabFigures seen = look();
  EXPECT_EQ(seen.work, OwnerWork::kIdle);
  EXPECT_EQ(seen.blocks_used, 8u);
  EXPECT_EQ(seen.blocks_leased, 0u);
  ASSERT_EQ(seen.streams.size(), 1u);
  EXPECT_EQ(seen.streams[0].blocks, control.max_blocks_per_stream());
  EXPECT_EQ(seen.streams[0].tokens, 128);
}

}  // namespace
}  // namespace suture
