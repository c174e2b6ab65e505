#include "bus/slab.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "bus/stream_reader.h"
#include "bus/test_streams.h"

namespace suture {
namespace {

constexpr PeerId kReader{2};

// 2 sequences of 128 tokens: 8 blocks, 8 stream slots.
SlabOptions small_options() {
  return {.shape = small_shape(), .max_seq_len = 128, .max_sequences = 2, .owner = PeerId{1}};
}

std::shared_ptr<Slab> small_slab() { return Slab::create(small_options()).value(); }

std::shared_ptr<SlabView> view_of(const Slab& slab) {
  return SlabView::map(slab.payload_fd(), slab.control_fd(), kReader).value();
}

void append(StreamWriter& writer, uint32_t salt, int64_t tokens) {
  for (int32_t layer = 0; layer < writer.n_layers(); ++layer) {
    for (int64_t token = writer.committed(layer); token < tokens; ++token)
      write_row(writer.shape(), writer.layer_view(layer), salt, layer, token);
    writer.commit(layer, tokens);
  }
}

int64_t wrong_in_all_layers(const StreamReader& reader, uint32_t salt, int64_t first, int64_t end) {
  int64_t wrong = 0;
  for (int32_t layer = 0; layer < reader.n_layers(); ++layer)
    wrong += wrong_elements(reader.shape(), reader.layer_view(layer), salt, layer, first, end);
  return wrong;
}

TEST(SlabTest, SizesFollowTheOptions) {
  const auto slab = small_slab();
  EXPECT_EQ(slab->n_blocks(), 8u);
  EXPECT_EQ(slab->free_blocks(), 8u);
  EXPECT_EQ(slab->payload_bytes(), 3u * 8u * 4096u);
  struct stat control {};
  ASSERT_EQ(::fstat(slab->control_fd(), &control), 0);
  EXPECT_EQ(Slab::memory_bytes_for(small_options()).value(),
            slab->payload_bytes() + static_cast<uint64_t>(control.st_size));
  SlabOptions options;
  options.shape = {.n_layers = 28, .n_kv_heads = 2, .head_dim = 128, .dtype = DType::kF16};
  // 4 * 8192 tokens of 28 layers, K and V of 2 heads of 128 halves; the control memory, with a RoPE
  // epoch for every token of every stream, adds little.
  const uint64_t payload = 4ull * 8192 * 28 * 2 * 2 * 128 * 2;
  EXPECT_GT(Slab::memory_bytes_for(options).value(), payload);
  EXPECT_LT(Slab::memory_bytes_for(options).value(), payload + (1 << 20));
}

TEST(SlabTest, RefusesOptionsOutOfBounds) {
  for (const int64_t length : {int64_t{0}, int64_t{-1}, int64_t{1} << 62}) {
    SlabOptions options;
    options.shape = small_shape();
    options.max_seq_len = length;
    EXPECT_EQ(Slab::create(options).error().code, ErrorCode::kInvalidArgument) << length;
  }
  SlabOptions options;
  options.shape = small_shape();
  options.max_sequences = 0;
  EXPECT_FALSE(Slab::create(options));
}

TEST(SlabTest, ReservesAllBlocksAtOpening) {
  const auto slab = small_slab();
  const auto first = slab->open_stream(small_info(), 128);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ((*first)->capacity(), 128);
  const auto second = slab->open_stream(small_info(), 65);
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)->capacity(), 96);
  EXPECT_EQ(slab->free_blocks(), 1u);
  const auto third = slab->open_stream(small_info(), 33);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(third.error().what.find("needs 2 K/V blocks, 1 of 8"), std::string::npos);
  EXPECT_EQ(slab->open_streams(), 2u);
}

TEST(SlabTest, RefusesStreamsThatDoNotFit) {
  const auto slab = small_slab();
  const auto code = [&](const StreamInfo& info, int64_t tokens) {
    return slab->open_stream(info, tokens).error().code;
  };
  EXPECT_EQ(code(small_info(), 129), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(small_info(), 0), ErrorCode::kInvalidArgument);
  StreamInfo other = small_info();
  other.shape.head_dim = 16;
  EXPECT_EQ(code(other, 32), ErrorCode::kIncompatible);
  StreamInfo long_text = small_info();
  long_text.token_ids.assign(40, 1);
  EXPECT_EQ(code(long_text, 32), ErrorCode::kInvalidArgument);
  EXPECT_EQ(slab->free_blocks(), 8u);
}

TEST(SlabTest, RefusesMoreStreamsThanSlots) {
  const auto slab = small_slab();
  std::vector<std::unique_ptr<StreamWriter>> writers;
  for (int i = 0; i < 8; ++i) writers.push_back(slab->open_stream(small_info(), 1).value());
  EXPECT_EQ(slab->open_stream(small_info(), 1).error().code, ErrorCode::kBusy);
  writers.pop_back();
  EXPECT_TRUE(slab->open_stream(small_info(), 1));
}

TEST(SlabTest, GenerationsAreNeverReused) {
  const auto slab = small_slab();
  std::set<uint64_t> generations;
  for (int i = 0; i < 100; ++i)
    generations.insert(slab->open_stream(small_info(), 1).value()->id().generation);
  EXPECT_EQ(generations.size(), 100u);
  EXPECT_EQ(slab->free_blocks(), 8u);
}

TEST(SlabTest, OwnersHaveGenerationsOfTheirOwn) {
  SlabOptions options;
  options.shape = small_shape();
  std::set<uint64_t> generations;
  for (const uint64_t owner : {1, 2, 3}) {  // one name, restarted: every time another peer
    options.owner = PeerId{owner};
    const auto slab = Slab::create(options).value();
    for (int i = 0; i < 100; ++i)
      generations.insert(slab->open_stream(small_info(), 1).value()->id().generation);
  }
  EXPECT_EQ(generations.size(), 300u);
  options.owner = PeerId{uint64_t{1} << 32};
  EXPECT_EQ(Slab::create(options).error().code, ErrorCode::kInvalidArgument);
}

TEST(SlabTest, ForkSharesFullBlocksAndCopiesTheLastOne) {
  const auto slab = small_slab();
  const auto parent = slab->open_stream(small_info(), 96).value();
  append(*parent, 5, 80);
  const auto fork = slab->fork_stream(*parent, 40, small_info(), 64);
  ASSERT_TRUE(fork) << fork.error().message();
  // One block is shared, the second one is the fork's own.
  EXPECT_EQ(slab->free_blocks(), 8u - 3u - 1u);
  EXPECT_EQ((*fork)->committed(2), 40);

  append(**fork, 6, 64);
  append(*parent, 5, 96);
  const auto view = view_of(*slab);
  const StreamReader of_parent = view->attach(parent->id()).value();
  const StreamReader of_fork = view->attach((*fork)->id()).value();
  EXPECT_EQ(wrong_in_all_layers(of_parent, 5, 0, 96), 0);
  EXPECT_EQ(wrong_in_all_layers(of_fork, 5, 0, 40), 0);
  EXPECT_EQ(wrong_in_all_layers(of_fork, 6, 40, 64), 0);
}

TEST(SlabTest, SharedBlocksOutliveTheParent) {
  const auto slab = small_slab();
  auto parent = slab->open_stream(small_info(), 64).value();
  append(*parent, 5, 64);
  auto fork = slab->fork_stream(*parent, 64, small_info(), 64).value();
  EXPECT_EQ(slab->free_blocks(), 6u);
  parent.reset();
  EXPECT_EQ(slab->free_blocks(), 6u);
  const auto other = slab->open_stream(small_info(), 128).value();
  append(*other, 9, 128);
  EXPECT_EQ(wrong_in_all_layers(view_of(*slab)->attach(fork->id()).value(), 5, 0, 64), 0);
  fork.reset();
  EXPECT_EQ(slab->free_blocks(), 4u);
}

TEST(SlabTest, ForkTakesTheRopeEpochsOfItsRows) {
  const auto slab = small_slab();
  const auto parent = slab->open_stream(small_info(), 64).value();
  parent->set_rope_epoch(0, 30, 7);
  parent->set_rope_epoch(30, 20, 9);
  append(*parent, 5, 50);
  const auto fork = slab->fork_stream(*parent, 40, small_info(), 64).value();
  const StreamReader reader = view_of(*slab)->attach(fork->id()).value();
  for (const int64_t token : {0, 29, 30, 39, 40, 63}) {
    const int64_t expected = token < 30 ? 7 : token < 40 ? 9 : 0;
    EXPECT_EQ(fork->rope_epoch(token), expected) << token;
    EXPECT_EQ(reader.rope_epoch(token), expected) << token;
  }
}

TEST(SlabTest, ForkRefusesRowsThatAreNotCommitted) {
  const auto slab = small_slab();
  const auto parent = slab->open_stream(small_info(), 64).value();
  append(*parent, 5, 20);
  parent->commit(0, 30);  // the other layers are at 20
  EXPECT_EQ(slab->fork_stream(*parent, 21, small_info(), 64).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(slab->fork_stream(*parent, 20, small_info(), 19).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(slab->fork_stream(*parent, 20, small_info(), 20));
  parent->close();
  EXPECT_EQ(slab->fork_stream(*parent, 20, small_info(), 20).error().code, ErrorCode::kClosed);
}

TEST(SlabTest, ForkThatFindsNoBlocksLeavesThePoolAsItWas) {
  const auto slab = small_slab();
  const auto parent = slab->open_stream(small_info(), 128).value();
  const auto filler = slab->open_stream(small_info(), 96).value();
  append(*parent, 5, 64);
  EXPECT_EQ(slab->fork_stream(*parent, 64, small_info(), 128).error().code,
            ErrorCode::kOutOfMemory);
  EXPECT_EQ(slab->free_blocks(), 1u);
}

TEST(SlabTest, BlocksUnderALeaseAreNotReused) {
  const auto slab = small_slab();
  const auto view = view_of(*slab);
  auto writer = slab->open_stream(small_info(), 128).value();
  append(*writer, 5, 128);
  auto reader = view->attach(writer->id());
  ASSERT_TRUE(reader);
  writer.reset();
  EXPECT_EQ(slab->deferred_streams(), 1u);
  EXPECT_EQ(slab->free_blocks(), 4u);

  const auto other = slab->open_stream(small_info(), 128).value();
  append(*other, 6, 128);
  EXPECT_EQ(slab->open_stream(small_info(), 1).error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(wrong_in_all_layers(*reader, 5, 0, 128), 0);

  reader = fail(ErrorCode::kCancelled, "released");
  EXPECT_EQ(slab->reclaim(), 1u);
  EXPECT_EQ(slab->free_blocks(), 4u);
  EXPECT_EQ(slab->deferred_streams(), 0u);
}

TEST(SlabTest, OpeningReclaimsFirst) {
  const auto slab = small_slab();
  auto first = slab->open_stream(small_info(), 128).value();
  auto second = slab->open_stream(small_info(), 128).value();
  {
    const StreamReader reader = view_of(*slab)->attach(first->id()).value();
    first.reset();
    EXPECT_EQ(slab->open_stream(small_info(), 1).error().code, ErrorCode::kOutOfMemory);
  }
  EXPECT_TRUE(slab->open_stream(small_info(), 1));
}

}  // namespace
}  // namespace suture
