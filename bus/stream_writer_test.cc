#include "bus/stream_writer.h"

#include <gtest/gtest.h>

#include "bus/slab.h"
#include "bus/test_streams.h"

namespace suture {
namespace {

std::shared_ptr<Slab> small_slab() {
  SlabOptions options;
  options.shape = small_shape();
  options.max_seq_len = 64;
  options.max_sequences = 1;
  options.owner = PeerId{1};
  return Slab::create(options).value();
}

TEST(StreamWriterTest, LayersLieApartAndBlocksWithin) {
  const auto slab = small_slab();
  const auto writer = slab->open_stream(small_info(), 64).value();
  const KvLayerView first = writer->layer_view(0);
  const KvLayerView second = writer->layer_view(1);
  EXPECT_EQ(second.base - first.base, 2 * 4096);  // [layer][block], 2 blocks
  EXPECT_NE(first.block_ids[0], first.block_ids[1]);
  EXPECT_EQ(first.block_ids, second.block_ids);
}

TEST(StreamWriterTest, CommitPublishesEachLayerByItself) {
  const auto slab = small_slab();
  const auto writer = slab->open_stream(small_info(), 64).value();
  const uint64_t before = slab->control().activity();
  writer->commit(1, 17);
  EXPECT_EQ(writer->committed(0), 0);
  EXPECT_EQ(writer->committed(1), 17);
  EXPECT_EQ(slab->control().committed(writer->id().slot)[1], 17u);
  EXPECT_NE(slab->control().activity(), before);
  // 17 tokens of one layer: K and V of 2 heads of 8 floats.
  EXPECT_EQ(writer->bytes_published(), 17u * 2 * 2 * 8 * 4);
}

TEST(StreamWriterTest, KeepsItsSlabAlive) {
  auto slab = small_slab();
  const auto writer = slab->open_stream(small_info(), 64).value();
  slab.reset();
  write_row(writer->shape(), writer->layer_view(2), 1, 2, 63);
  writer->commit(2, 64);
  EXPECT_EQ(wrong_elements(writer->shape(), writer->layer_view(2), 1, 2, 63, 64), 0);
}

TEST(StreamWriterDeathTest, BrokenInvariantsAbort) {
  const auto slab = small_slab();
  const auto writer = slab->open_stream(small_info(), 64).value();
  writer->commit(0, 10);
  EXPECT_DEATH(writer->commit(0, 9), "commit 9 after 10");
  EXPECT_DEATH(writer->commit(0, 65), "capacity 64");
  EXPECT_DEATH(writer->commit(3, 1), "layer=3 of 3");
  EXPECT_DEATH(writer->layer_view(-1), "layer=-1");
  writer->close();
  EXPECT_DEATH(writer->commit(0, 11), "closed=true");
}

}  // namespace
}  // namespace suture
