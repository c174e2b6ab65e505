#include "bus/lease.h"

#include <gtest/gtest.h>

#include <thread>

#include "bus/slab.h"
#include "bus/test_streams.h"

namespace suture {
namespace {

class LeaseTest : public ::testing::Test {
 protected:
  LeaseTest() {
    SlabOptions options;
    options.shape = small_shape();
    options.max_seq_len = 32;
    options.max_sequences = 1;
    options.owner = PeerId{1};
    slab_ = Slab::create(options).value();
    control_ = std::make_shared<const Control>(Control::attach(slab_->control_fd()).value());
  }

  Result<Lease> take(StreamId id, PeerId peer = PeerId{2}) const {
    return Lease::take(control_, id, peer);
  }
  std::unique_ptr<StreamWriter> open() { return slab_->open_stream(small_info(), 32).value(); }

  std::shared_ptr<Slab> slab_;
  std::shared_ptr<const Control> control_;
};

TEST_F(LeaseTest, HoldsASlotWhileItLives) {
  const auto writer = open();
  {
    const auto lease = take(writer->id());
    ASSERT_TRUE(lease) << lease.error().message();
    EXPECT_TRUE(lease->check());
    EXPECT_EQ(control_->leases(writer->id().slot)[0], 2u);
  }
  EXPECT_FALSE(control_->has_lease(writer->id().slot));
}

TEST_F(LeaseTest, MovesWithItsOwner) {
  const auto writer = open();
  Lease first = take(writer->id()).value();
  Lease second = take(writer->id()).value();
  {
    const Lease moved = std::move(first);
    EXPECT_TRUE(moved.check());
  }
  EXPECT_EQ(control_->leases(writer->id().slot)[0], 0u);
  EXPECT_EQ(control_->leases(writer->id().slot)[1], 2u);
  first = std::move(second);
  EXPECT_TRUE(control_->has_lease(writer->id().slot));
}

TEST_F(LeaseTest, RefusesStaleClosedLostAndImpossibleStreams) {
  auto writer = open();
  const StreamId old = writer->id();
  EXPECT_EQ(take({old.slot, old.generation + 1}).error().code, ErrorCode::kStaleGeneration);
  EXPECT_EQ(take({control_->max_streams(), 1}).error().code, ErrorCode::kInvalidArgument);
  writer.reset();
  EXPECT_EQ(take(old).error().code, ErrorCode::kClosed);
  writer = open();
  EXPECT_EQ(take(old).error().code, ErrorCode::kStaleGeneration);
  control_->mark_owner_lost();
  EXPECT_EQ(take(writer->id()).error().code, ErrorCode::kLost);
  EXPECT_FALSE(control_->has_lease(old.slot));
}

TEST_F(LeaseTest, ManyReadersThenBusy) {
  const auto writer = open();
  std::vector<Lease> leases;
  for (uint32_t i = 0; i < kLeasesPerStream; ++i)
    leases.push_back(take(writer->id(), PeerId{i + 1}).value());
  EXPECT_EQ(take(writer->id()).error().code, ErrorCode::kBusy);
  leases.pop_back();
  EXPECT_TRUE(take(writer->id()));
}

TEST_F(LeaseTest, ADroppedLeaseDoesNotReleaseItsSuccessors) {
  const auto writer = open();
  {
    const Lease dropped = take(writer->id(), PeerId{2}).value();
    EXPECT_EQ(control_->drop_leases_of(PeerId{2}), 1u);
    control_->leases(writer->id().slot)[0] = 3;
  }
  EXPECT_EQ(control_->leases(writer->id().slot)[0], 3u);
}

// A reader that got a lease finds the generation it asked for until it lets go, although the owner
// closes and opens streams in the same slot all the time.
TEST_F(LeaseTest, NoLeaseOnARecycledStream) {
  std::atomic<uint64_t> generation{0};
  std::atomic<bool> done{false};
  std::atomic<int> taken{0};
  const auto read = [&] {
    while (!done) {
      std::this_thread::yield();
      const StreamId id{0, generation.load()};
      const auto lease = Lease::take(control_, id, PeerId{2});
      if (!lease) continue;
      ++taken;
      for (int i = 0; i < 20; ++i) ASSERT_EQ(control_->stream(0).generation.load(), id.generation);
    }
  };
  std::thread first(read);
  std::thread second(read);
  for (int opened = 0; opened < 400;) {
    const auto writer = slab_->open_stream(small_info(), 32);
    if (!writer || (*writer)->id().slot != 0) {  // slot 0 waits for the end of a lease
      std::this_thread::yield();
      continue;
    }
    generation = (*writer)->id().generation;
    // Every other stream is closed while readers are still on their way to it.
    const int before = taken;
    while (opened % 2 == 0 && taken == before) std::this_thread::yield();
    ++opened;
  }
  done = true;
  first.join();
  second.join();
}

}  // namespace
}  // namespace suture
