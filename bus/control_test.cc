#include "bus/control.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>

#include "bus/memfd.h"
#include "bus/test_streams.h"

namespace suture {
namespace {

ControlOptions small_options() {
  ControlOptions options;
  options.shape = small_shape();
  options.n_blocks = 12;
  options.max_streams = 5;
  options.max_blocks_per_stream = 4;
  options.owner = PeerId{9};
  return options;
}

// Control memory with the given header, sealed as attach wants it.
UniqueFd forged(const ControlHeaderData& header, uint64_t bytes) {
  UniqueFd fd = create_memfd("test", bytes).value();
  {
    const Mapping mapping = Mapping::shared(fd.get(), bytes, Mapping::Access::kReadWrite).value();
    std::memcpy(mapping.data(), static_cast<const void*>(&header),
                std::min<uint64_t>(bytes, offsetof(ControlHeaderData, heartbeat)));
  }
  EXPECT_TRUE(seal_memfd(fd.get(), F_SEAL_SHRINK | F_SEAL_GROW));
  return fd;
}

class ControlForgeryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Control control = Control::create(small_options()).value();
    const Mapping mapping =
        Mapping::shared(control.fd(), sizeof(header_), Mapping::Access::kReadOnly).value();
    std::memcpy(static_cast<void*>(&header_), mapping.data(),
                offsetof(ControlHeaderData, heartbeat));
    bytes_ = header_.control_bytes;
  }

  ErrorCode attach_error() const {
    const UniqueFd fd = forged(header_, bytes_);
    const auto control = Control::attach(fd.get());
    EXPECT_FALSE(control);
    return control ? ErrorCode::kCancelled : control.error().code;
  }

  ControlHeaderData header_{};
  uint64_t bytes_ = 0;
};

TEST(ControlTest, AttachSeesTheSameMemory) {
  const auto created = Control::create(small_options());
  ASSERT_TRUE(created) << created.error().message();
  const auto attached = Control::attach(created->fd());
  ASSERT_TRUE(attached) << attached.error().message();
  EXPECT_EQ(attached->shape(), small_shape());
  EXPECT_EQ(attached->n_blocks(), 12u);
  EXPECT_EQ(attached->max_streams(), 5u);
  EXPECT_EQ(attached->max_blocks_per_stream(), 4u);
  EXPECT_EQ(attached->owner(), PeerId{9});
  EXPECT_EQ(attached->payload_bytes(), 3u * 12u * 4096u);
  for (uint32_t slot = 0; slot < 5; ++slot) {
    created->stream(slot).generation = 100 + slot;
    created->committed(slot).back() = 200 + slot;
    created->leases(slot).back() = 300 + slot;
    created->block_table(slot).back() = 400 + slot;
  }
  for (uint32_t slot = 0; slot < 5; ++slot) {
    EXPECT_EQ(attached->stream(slot).generation, 100 + slot);
    EXPECT_EQ(attached->committed(slot).back(), 200 + slot);
    EXPECT_EQ(attached->leases(slot).back(), 300 + slot);
    EXPECT_EQ(attached->block_table(slot).back(), 400 + slot);
  }
}

TEST(ControlTest, RefusesCountsOutOfBounds) {
  const auto refused = [](auto change) {
    ControlOptions options = small_options();
    change(options);
    return !Control::create(options).has_value();
  };
  EXPECT_TRUE(refused([](auto& o) { o.shape.n_layers = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.shape.n_layers = kMaxLayers + 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.shape.n_kv_heads = -1; }));
  EXPECT_TRUE(refused([](auto& o) { o.shape.head_dim = kMaxHeadDim + 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.shape.dtype = DType::kQ8_0; }));
  EXPECT_TRUE(refused([](auto& o) { o.n_blocks = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.max_streams = kMaxStreams + 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.max_blocks_per_stream = 13; }));
}

TEST(ControlTest, ActivityMovesWithTheHeartbeat) {
  const Control control = Control::create(small_options()).value();
  const uint64_t before = control.activity();
  control.heartbeat();
  EXPECT_EQ(control.heartbeats(), 1u);
  EXPECT_NE(control.activity(), before);
}

TEST(ControlTest, OnlyOpenStreamsBecomeLost) {
  const Control control = Control::create(small_options()).value();
  const auto state = [&](uint32_t slot) {
    return static_cast<StreamState>(control.stream(slot).state.load());
  };
  control.stream(1).state = static_cast<uint32_t>(StreamState::kOpen);
  control.stream(2).state = static_cast<uint32_t>(StreamState::kClosing);
  control.mark_owner_lost();
  EXPECT_EQ(state(0), StreamState::kFree);
  EXPECT_EQ(state(1), StreamState::kLost);
  EXPECT_EQ(state(2), StreamState::kClosing);
  EXPECT_EQ(control.owner_state(), OwnerState::kLost);
  EXPECT_EQ(control.stream(1).doorbell.bell, 1u);
}

TEST(ControlTest, DropsTheLeasesOfOnePeerOnly) {
  const Control control = Control::create(small_options()).value();
  control.leases(0)[0] = 7;
  control.leases(0)[1] = 8;
  control.leases(3)[63] = 7;
  EXPECT_EQ(control.drop_leases_of(PeerId{7}), 2u);
  EXPECT_TRUE(control.has_lease(0));
  EXPECT_FALSE(control.has_lease(3));
  EXPECT_EQ(control.drop_leases_of(PeerId{7}), 0u);
}

TEST_F(ControlForgeryTest, TheUnchangedHeaderIsAccepted) {
  EXPECT_TRUE(Control::attach(forged(header_, bytes_).get()));
}

TEST_F(ControlForgeryTest, AnotherMagicIsRefused) {
  header_.magic ^= 1;
  EXPECT_EQ(attach_error(), ErrorCode::kCorrupt);
}

TEST_F(ControlForgeryTest, AnotherVersionIsIncompatible) {
  header_.layout_version += 1;
  EXPECT_EQ(attach_error(), ErrorCode::kIncompatible);
}

TEST_F(ControlForgeryTest, CountsThatDoNotFitTheSizeAreRefused) {
  header_.max_streams += 1;
  EXPECT_EQ(attach_error(), ErrorCode::kCorrupt);
}

TEST_F(ControlForgeryTest, HugeCountsAreRefused) {
  header_.n_layers = header_.max_streams = header_.n_blocks = 0xffff'ffff;
  EXPECT_EQ(attach_error(), ErrorCode::kInvalidArgument);
}

TEST_F(ControlForgeryTest, AnUnknownDTypeIsRefused) {
  header_.dtype = 0x100;
  EXPECT_EQ(attach_error(), ErrorCode::kCorrupt);
}

TEST_F(ControlForgeryTest, AnotherPayloadSizeIsRefused) {
  header_.payload_bytes += 4096;
  EXPECT_EQ(attach_error(), ErrorCode::kCorrupt);
}

TEST_F(ControlForgeryTest, ATinyFileIsRefused) {
  bytes_ = 16;
  EXPECT_EQ(attach_error(), ErrorCode::kCorrupt);
}

TEST_F(ControlForgeryTest, UnsealedMemoryIsRefused) {
  const UniqueFd fd = create_memfd("test", bytes_).value();
  EXPECT_EQ(Control::attach(fd.get()).error().code, ErrorCode::kPermission);
}

}  // namespace
}  // namespace suture
