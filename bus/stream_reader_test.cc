#include "bus/stream_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "bus/slab.h"
#include "bus/test_streams.h"

namespace suture {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class StreamReaderTest : public ::testing::Test {
 protected:
  StreamReaderTest() {
    SlabOptions options;
    options.shape = small_shape();
    options.max_seq_len = 64;
    options.max_sequences = 1;
    options.owner = PeerId{1};
    slab_ = Slab::create(options).value();
    view_ = SlabView::map(slab_->payload_fd(), slab_->control_fd(), PeerId{2}).value();
    writer_ = slab_->open_stream(small_info(), 64).value();
  }

  // A thread that waits for 2 tokens of layer 0 and reports how that ended.
  void expect_wait_ends(StreamReader& reader, std::optional<ErrorCode> code, auto&& cause) {
    std::thread waiter([&] {
      const Status status = reader.wait(0, 2, deadline_in(seconds(60)));
      EXPECT_EQ(status.has_value(), !code.has_value());
      if (!status && code) {
        EXPECT_EQ(status.error().code, *code);
      }
    });
    const Control& control = slab_->control();
    while (control.stream(writer_->id().slot).doorbell.waiters.load() == 0)
      std::this_thread::yield();
    cause();
    waiter.join();
  }

  std::shared_ptr<Slab> slab_;
  std::shared_ptr<SlabView> view_;
  std::unique_ptr<StreamWriter> writer_;
};

TEST_F(StreamReaderTest, SeesShapeAndRows) {
  const auto reader = view_->attach(writer_->id());
  ASSERT_TRUE(reader) << reader.error().message();
  EXPECT_EQ(reader->n_layers(), 3);
  EXPECT_EQ(reader->capacity(), 64);
  EXPECT_EQ(view_->owner(), PeerId{1});
  for (int64_t token = 0; token < 64; ++token)
    write_row(small_shape(), writer_->layer_view(1), 4, 1, token);
  writer_->commit(1, 64);
  EXPECT_EQ(reader->committed(1), 64);
  EXPECT_EQ(reader->committed(0), 0);
  EXPECT_EQ(wrong_elements(small_shape(), reader->layer_view(1), 4, 1, 0, 64), 0);
  EXPECT_GT(wrong_elements(small_shape(), reader->layer_view(1), 5, 1, 0, 64), 0);
}

TEST_F(StreamReaderTest, ReadyRowsNeedNoWait) {
  StreamReader reader = view_->attach(writer_->id()).value();
  writer_->commit(0, 5);
  EXPECT_TRUE(reader.wait(0, 5, Deadline::min()));
}

TEST_F(StreamReaderTest, WhetherRowsAreThereCanBeAskedWithoutWaiting) {
  const StreamReader reader = view_->attach(writer_->id()).value();
  EXPECT_FALSE(reader.has(0, 2).value());
  writer_->commit(0, 2);
  EXPECT_TRUE(reader.has(0, 2).value());
  EXPECT_FALSE(reader.has(1, 2).value());
  EXPECT_EQ(reader.has(0, 65).error().code, ErrorCode::kInvalidArgument);
  writer_.reset();
  EXPECT_TRUE(reader.has(0, 2).value());
  EXPECT_EQ(reader.has(1, 2).error().code, ErrorCode::kClosed);
}

TEST_F(StreamReaderTest, WaitAllWaitsForTheLastLayer) {
  StreamReader reader = view_->attach(writer_->id()).value();
  writer_->commit(0, 5);
  writer_->commit(1, 5);
  EXPECT_EQ(reader.wait_all(5, deadline_in(milliseconds(5))).error().code, ErrorCode::kTimeout);
  writer_->commit(2, 5);
  EXPECT_TRUE(reader.wait_all(5, Deadline::min()));
}

TEST_F(StreamReaderTest, MoreThanTheCapacityNeverComes) {
  StreamReader reader = view_->attach(writer_->id()).value();
  EXPECT_EQ(reader.wait(0, 65, Deadline::max()).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(reader.wait(0, -1, Deadline::max()).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(StreamReaderTest, ACommitWakesAWaiter) {
  StreamReader reader = view_->attach(writer_->id()).value();
  expect_wait_ends(reader, std::nullopt, [&] { writer_->commit(0, 2); });
}

TEST_F(StreamReaderTest, AClosedStreamStillGivesItsCommittedRows) {
  StreamReader reader = view_->attach(writer_->id()).value();
  writer_->commit(0, 1);
  expect_wait_ends(reader, ErrorCode::kClosed, [&] { writer_->close(); });
  EXPECT_TRUE(reader.wait(0, 1, Deadline::min()));
  EXPECT_EQ(reader.begin_step().error().code, ErrorCode::kClosed);
  EXPECT_EQ(view_->attach(writer_->id()).error().code, ErrorCode::kClosed);
}

TEST_F(StreamReaderTest, ALostStreamStillGivesItsCommittedRows) {
  StreamReader reader = view_->attach(writer_->id()).value();
  writer_->commit(0, 1);
  EXPECT_FALSE(view_->owner_lost());
  expect_wait_ends(reader, ErrorCode::kLost, [&] { slab_->control().mark_owner_lost(); });
  EXPECT_TRUE(reader.wait(0, 1, Deadline::min()));
  EXPECT_EQ(reader.begin_step().error().code, ErrorCode::kLost);
  EXPECT_TRUE(view_->owner_lost());
}

TEST_F(StreamReaderTest, AnotherGenerationIsSeenAtAttachAndAtStepStart) {
  StreamReader reader = view_->attach(writer_->id()).value();
  EXPECT_TRUE(reader.begin_step());
  const StreamId old = writer_->id();
  // The broker took this reader for dead, so the slot may serve another stream.
  slab_->control().drop_leases_of(PeerId{2});
  writer_.reset();
  writer_ = slab_->open_stream(small_info(), 64).value();
  ASSERT_EQ(writer_->id().slot, old.slot);
  writer_->commit(0, 64);
  EXPECT_EQ(view_->attach(old).error().code, ErrorCode::kStaleGeneration);
  EXPECT_EQ(reader.begin_step().error().code, ErrorCode::kStaleGeneration);
  // The other stream's rows are never taken for this one's.
  EXPECT_EQ(reader.wait(0, 2, Deadline::min()).error().code, ErrorCode::kStaleGeneration);
}

// Two looks of one wait may see different states. On an idle machine a few rounds are enough.
TEST_F(StreamReaderTest, AnOwnerThatTakesItsWordBackIsReported) {
  StreamReader reader = view_->attach(writer_->id()).value();
  std::atomic<uint32_t>& state = slab_->control().stream(writer_->id().slot).state;
  std::atomic<bool> done = false;
  std::thread owner([&] {
    while (!done) {
      state.store(static_cast<uint32_t>(StreamState::kClosing));
      std::this_thread::yield();
      state.store(static_cast<uint32_t>(StreamState::kOpen));
      std::this_thread::yield();
    }
  });
  ErrorCode code = ErrorCode::kTimeout;
  const Deadline end = deadline_in(seconds(1));
  while (code != ErrorCode::kCorrupt && std::chrono::steady_clock::now() < end) {
    const Status status = reader.wait(0, 2, deadline_in(milliseconds(1)));
    code = status ? ErrorCode::kInvalidArgument : status.error().code;
    EXPECT_TRUE(code == ErrorCode::kClosed || code == ErrorCode::kCorrupt ||
                code == ErrorCode::kTimeout)
        << static_cast<int>(code);
  }
  done = true;
  owner.join();
}

TEST_F(StreamReaderTest, KeepsItsMappingAlive) {
  for (int64_t token = 0; token < 64; ++token)
    write_row(small_shape(), writer_->layer_view(0), 4, 0, token);
  writer_->commit(0, 64);
  const StreamReader reader = view_->attach(writer_->id()).value();
  view_.reset();
  writer_.reset();
  slab_.reset();
  EXPECT_EQ(wrong_elements(small_shape(), reader.layer_view(0), 4, 0, 0, 64), 0);
}

TEST_F(StreamReaderTest, DamagedBlockTablesAreRefused) {
  const Control& control = slab_->control();
  const uint32_t slot = writer_->id().slot;
  control.block_table(slot)[1] = slab_->n_blocks();
  EXPECT_EQ(view_->attach(writer_->id()).error().code, ErrorCode::kCorrupt);
  control.block_table(slot)[1] = 1;
  for (const uint32_t count : {0u, 3u, ~0u}) {
    control.stream(slot).n_blocks = count;
    EXPECT_EQ(view_->attach(writer_->id()).error().code, ErrorCode::kCorrupt) << count;
  }
  EXPECT_FALSE(control.has_lease(slot));
}

TEST_F(StreamReaderTest, DamageAfterAttachMovesNoAccess) {
  StreamReader reader = view_->attach(writer_->id()).value();
  const Control& control = slab_->control();
  const uint32_t slot = writer_->id().slot;
  const uint32_t before = reader.layer_view(0).block_ids[1];
  control.block_table(slot)[1] = ~0u;
  control.committed(slot)[0] = ~uint64_t{0};
  EXPECT_EQ(reader.layer_view(0).block_ids[1], before);
  EXPECT_EQ(reader.committed(0), 64);
  // The owner counts for itself.
  EXPECT_EQ(writer_->committed(0), 0);
}

TEST_F(StreamReaderTest, AForgedStreamIdIsAnErrorAndLeavesNoLease) {
  const StreamId id = writer_->id();
  const auto refusal = [&](StreamId forged) { return view_->attach(forged).error().code; };
  EXPECT_EQ(refusal({slab_->control().max_streams(), id.generation}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({~0u, id.generation}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({id.slot, id.generation + 1}), ErrorCode::kStaleGeneration);
  EXPECT_EQ(refusal({id.slot, 0}), ErrorCode::kStaleGeneration);
  EXPECT_EQ(refusal({id.slot + 1, id.generation}), ErrorCode::kStaleGeneration);
  EXPECT_EQ(refusal({id.slot + 1, 0}), ErrorCode::kClosed);
  writer_.reset();
  EXPECT_EQ(refusal(id), ErrorCode::kClosed);
  EXPECT_FALSE(slab_->control().has_lease(id.slot));
}

TEST_F(StreamReaderTest, RopeEpochsComeWithTheRowsAndAreBounded) {
  StreamReader reader = view_->attach(writer_->id()).value();
  writer_->set_rope_epoch(0, 5, 0);
  writer_->set_rope_epoch(5, 2, 40);
  for (int32_t layer = 0; layer < 3; ++layer) writer_->commit(layer, 7);
  EXPECT_EQ(reader.rope_epoch(4), 0);
  EXPECT_EQ(reader.rope_epoch(5), 40);
  EXPECT_EQ(reader.rope_epoch(6), 40);
  slab_->control().epochs(writer_->id().slot)[6] = ~0u;
  EXPECT_EQ(reader.rope_epoch(6), kMaxRopeEpoch);
  EXPECT_EQ(writer_->rope_epoch(6), 40);  // the owner knows for itself
}

TEST_F(StreamReaderTest, MapRefusesAnotherSlabsPayload) {
  SlabOptions options;
  options.shape = small_shape();
  options.max_seq_len = 32;
  options.max_sequences = 1;
  const auto other = Slab::create(options).value();
  EXPECT_EQ(SlabView::map(other->payload_fd(), slab_->control_fd(), PeerId{2}).error().code,
            ErrorCode::kCorrupt);
  EXPECT_FALSE(SlabView::map(slab_->control_fd(), slab_->payload_fd(), PeerId{2}));
}

using StreamReaderDeathTest = StreamReaderTest;

TEST_F(StreamReaderDeathTest, WritingThroughAReaderIsAFault) {
  const StreamReader reader = view_->attach(writer_->id()).value();
  EXPECT_DEATH(write_row(small_shape(), reader.layer_view(0), 1, 0, 0), "");
}

}  // namespace
}  // namespace suture
