#include "bus/blob_table.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "bus/memfd.h"
#include "bus/shared_blob.h"

namespace suture {
namespace {

using std::chrono::seconds;

constexpr PeerId kA{1};
constexpr PeerId kB{2};
constexpr PeerId kC{3};
constexpr BlobTable::Time kStart{};

UniqueFd blob_of(uint64_t bytes) {
  return make_shared_blob(bytes, [](std::span<std::byte>) { return Status(); }).value();
}

bool hung_up(int fd) {
  pollfd asked = {fd, 0, 0};
  return ::poll(&asked, 1, 0) == 1 && (asked.revents & POLLHUP) != 0;
}

class BlobTableTest : public testing::Test {
 protected:
  BlobState state_of(PeerId peer, const BlobName& name = {"weights", 4096}) {
    const auto found = table_.find(peer, name, kStart);
    EXPECT_TRUE(found) << found.error().message();
    return found ? found->state : BlobState::kNone;
  }
  // What the peer has to wait for.
  UniqueFd waiting(PeerId peer) {
    const auto found = table_.find(peer, name_, kStart).value();
    EXPECT_EQ(found.state, BlobState::kWait);
    return UniqueFd(::fcntl(found.fd, F_DUPFD_CLOEXEC, 0));
  }
  Status publish(PeerId peer) { return table_.publish(peer, name_, blob_of(4096), kStart); }

  const BlobName name_ = {"weights", 4096};
  BlobTable table_;
};

TEST_F(BlobTableTest, TheFirstBuildsAndTheOthersWaitForIt) {
  EXPECT_EQ(state_of(kA), BlobState::kBuild);
  const UniqueFd b = waiting(kB);
  const UniqueFd a_again = waiting(kA);
  EXPECT_FALSE(hung_up(b.get()));
  ASSERT_TRUE(publish(kA));
  EXPECT_TRUE(hung_up(b.get()));
  EXPECT_TRUE(hung_up(a_again.get()));
  for (const PeerId peer : {kA, kB, kC}) EXPECT_EQ(state_of(peer), BlobState::kReady);
}

TEST_F(BlobTableTest, ItLivesAsLongAsSomebodyHoldsIt) {
  ASSERT_EQ(state_of(kA), BlobState::kBuild);
  waiting(kB);
  ASSERT_TRUE(publish(kA));
  table_.leave_all(kA, kStart);  // B was promised the blob, although it has not asked again yet
  EXPECT_EQ(state_of(kB), BlobState::kReady);
  EXPECT_EQ(state_of(kA), BlobState::kReady);
  table_.leave_all(kB, kStart);
  EXPECT_EQ(state_of(kC), BlobState::kReady);
  table_.leave(kA, name_, kStart);
  table_.leave_all(kC, kStart);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(state_of(kB), BlobState::kBuild);
}

TEST_F(BlobTableTest, WhenTheBuilderLeavesTheNextInLineBuilds) {
  ASSERT_EQ(state_of(kA), BlobState::kBuild);
  const UniqueFd b = waiting(kB);
  const UniqueFd c = waiting(kC);
  table_.leave(kA, name_, kStart);
  EXPECT_TRUE(hung_up(b.get()));
  EXPECT_TRUE(hung_up(c.get()));
  EXPECT_EQ(state_of(kA), BlobState::kWait);  // who failed stands behind the others
  EXPECT_EQ(state_of(kC), BlobState::kWait);
  EXPECT_EQ(state_of(kB), BlobState::kBuild);
  EXPECT_EQ(state_of(kB), BlobState::kWait);  // told once
  table_.leave_all(kB, kStart);
  EXPECT_EQ(state_of(kC), BlobState::kBuild);
  EXPECT_EQ(publish(kB).error().code, ErrorCode::kPermission);
  EXPECT_TRUE(publish(kC));
}

TEST_F(BlobTableTest, NobodyIsLeftWhenTheOnlyBuilderFails) {
  ASSERT_EQ(state_of(kA), BlobState::kBuild);
  table_.leave(kA, name_, kStart);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(publish(kA).error().code, ErrorCode::kPermission);
}

TEST_F(BlobTableTest, ATurnThatLastsTooLongEnds) {
  ASSERT_EQ(state_of(kA), BlobState::kBuild);
  const UniqueFd b = waiting(kB);
  table_.end_turns_before(kStart, kStart + seconds(1));
  EXPECT_FALSE(hung_up(b.get()));
  table_.end_turns_before(kStart + seconds(1), kStart + seconds(5));
  EXPECT_TRUE(hung_up(b.get()));
  EXPECT_EQ(publish(kA).error().code, ErrorCode::kPermission);
  table_.end_turns_before(kStart + seconds(5), kStart + seconds(5));
  EXPECT_EQ(state_of(kB), BlobState::kBuild);  // its own time began when the other's ended
  // Nobody waits: the next to ask builds.
  table_.end_turns_before(kStart + seconds(9), kStart + seconds(9));
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(BlobTableTest, WhatIsNoBlobIsRefusedAndEndsTheTurn) {
  ASSERT_EQ(state_of(kA), BlobState::kBuild);
  const UniqueFd b = waiting(kB);
  EXPECT_FALSE(table_.publish(kA, name_, create_memfd("open", 4096).value(), kStart));
  EXPECT_TRUE(hung_up(b.get()));
  EXPECT_EQ(state_of(kB), BlobState::kBuild);
  EXPECT_FALSE(table_.publish(kB, name_, blob_of(8192), kStart));
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(BlobTableTest, AnotherSizeIsAnotherBlob) {
  EXPECT_EQ(state_of(kA, {"weights", 1}), BlobState::kBuild);
  EXPECT_EQ(state_of(kB, {"weights", 4096}), BlobState::kBuild);
}

TEST_F(BlobTableTest, KeysSizesAndNumbersAreBounded) {
  for (const BlobName& wrong :
       {BlobName{"", 1}, BlobName{std::string(64, 'x'), 1}, BlobName{"a\nb", 1},
        BlobName{"empty", 0}, BlobName{"huge", ~uint64_t{0}}})
    EXPECT_EQ(table_.find(kA, wrong, kStart).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(table_.size(), 0u);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(state_of(kA, {fmt::format("{}", i), 1}), BlobState::kBuild);
  EXPECT_EQ(table_.find(kA, name_, kStart).error().code, ErrorCode::kBusy);
  EXPECT_EQ(state_of(kA, {"0", 1}), BlobState::kWait);  // its own
  EXPECT_EQ(state_of(kB), BlobState::kBuild);           // another's share is its own
  EXPECT_EQ(table_.find(kA, name_, kStart).error().code, ErrorCode::kBusy);
  table_.leave(kA, {"0", 1}, kStart);
  EXPECT_EQ(state_of(kA), BlobState::kWait);
}

}  // namespace
}  // namespace suture
