#include "bus/peer_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "bus/memfd.h"
#include "bus/slab.h"
#include "bus/stream_reader.h"
#include "bus/token_ring.h"

namespace suture {
namespace {

constexpr KvShape kShape = {2, 1, 8, DType::kF32};

std::shared_ptr<Slab> new_slab(PeerId owner) {
  return Slab::create({kShape, 64, 2, owner}).value();
}

UniqueFd copy_of(int fd) { return UniqueFd(::dup(fd)); }

Status publish(PeerTable& table, PeerId peer, const Slab& slab) {
  return table.publish_slab(peer, copy_of(slab.payload_fd()), copy_of(slab.control_fd()));
}

TEST(PeerTableTest, NamesAreFreedAndIdsAreNot) {
  PeerTable table;
  const PeerId first = table.join("master").value();
  EXPECT_EQ(table.join("master").error().code, ErrorCode::kBusy);
  table.end(first);
  const PeerId second = table.join("master").value();
  EXPECT_GT(second, first);
}

TEST(PeerTableTest, NamesMustBePrintable) {
  PeerTable table;
  for (const std::string& name : {std::string(), std::string(64, 'x'), std::string("a\nb")}) {
    EXPECT_EQ(table.join(name).error().code, ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(table.join(std::string(63, 'x')));
}

TEST(PeerTableTest, SlabIsFoundByItsOwnersName) {
  PeerTable table;
  const PeerId peer = table.join("slave").value();
  EXPECT_EQ(table.find_slab("nobody").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(table.find_slab("slave").error().code, ErrorCode::kNotFound);
  const auto slab = new_slab(peer);
  ASSERT_TRUE(publish(table, peer, *slab));
  EXPECT_EQ(publish(table, peer, *slab).error().code, ErrorCode::kBusy);
  const auto found = table.find_slab("slave").value();
  EXPECT_EQ(found.owner, peer);
  EXPECT_TRUE(SlabView::map(found.payload, found.control, peer));
}

TEST(PeerTableTest, SlabOfAnotherPeerIsRefused) {
  PeerTable table;
  const PeerId peer = table.join("slave").value();
  const auto slab = new_slab(PeerId{peer.value + 1});
  EXPECT_EQ(publish(table, peer, *slab).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(table.find_slab("slave").error().code, ErrorCode::kNotFound);
}

TEST(PeerTableTest, PayloadWithoutSealsIsRefused) {
  PeerTable table;
  const PeerId peer = table.join("slave").value();
  const auto slab = new_slab(peer);
  auto open = create_memfd("open", slab->payload_bytes()).value();
  const Status published = table.publish_slab(peer, std::move(open), copy_of(slab->control_fd()));
  EXPECT_EQ(published.error().code, ErrorCode::kPermission);
}

TEST(PeerTableTest, ActivityMovesWithTheOwner) {
  PeerTable table;
  const PeerId peer = table.join("slave").value();
  EXPECT_FALSE(table.activity(peer));
  const auto slab = new_slab(peer);
  ASSERT_TRUE(publish(table, peer, *slab));
  const auto before = table.activity(peer);
  EXPECT_EQ(table.activity(peer), before);
  slab->heartbeat();
  EXPECT_NE(table.activity(peer), before);
}

TEST(PeerTableTest, EndMarksStreamsLostAndDropsLeasesElsewhere) {
  PeerTable table;
  const PeerId owner = table.join("owner").value();
  const PeerId reader = table.join("reader").value();
  const auto owners = new_slab(owner);
  const auto readers = new_slab(reader);
  ASSERT_TRUE(publish(table, owner, *owners));
  ASSERT_TRUE(publish(table, reader, *readers));
  StreamInfo info;
  info.shape = kShape;
  const auto held = owners->open_stream(info, 32).value();
  const auto own = readers->open_stream(info, 32).value();
  const auto view = SlabView::map(owners->payload_fd(), owners->control_fd(), reader).value();
  const auto lease = view->attach(held->id()).value();
  ASSERT_TRUE(owners->control().has_lease(held->id().slot));

  table.end(reader);
  EXPECT_FALSE(owners->control().has_lease(held->id().slot));
  EXPECT_EQ(owners->control().owner_state(), OwnerState::kAlive);
  EXPECT_EQ(readers->control().owner_state(), OwnerState::kLost);
}

TEST(PeerTableTest, RingBelongsToItsPublisher) {
  PeerTable table;
  const PeerId master = table.join("master").value();
  const PeerId slave = table.join("slave").value();
  const auto ring = TokenRing::create(8).value();
  ASSERT_TRUE(table.publish_ring(master, "answer", copy_of(ring->fd())));
  EXPECT_EQ(table.publish_ring(slave, "answer", copy_of(ring->fd())).error().code,
            ErrorCode::kBusy);
  EXPECT_TRUE(table.find_ring("answer"));
  EXPECT_EQ(table.withdraw_ring(slave, "answer").error().code, ErrorCode::kPermission);
  ASSERT_TRUE(table.withdraw_ring(master, "answer"));
  EXPECT_EQ(table.find_ring("answer").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(table.withdraw_ring(master, "answer").error().code, ErrorCode::kNotFound);
}

TEST(PeerTableTest, OtherMemoryIsNoRing) {
  PeerTable table;
  const PeerId master = table.join("master").value();
  auto memory = create_memfd("no ring", 4096).value();
  EXPECT_FALSE(table.publish_ring(master, "answer", std::move(memory)));
  EXPECT_FALSE(table.publish_ring(master, "answer", UniqueFd(::open("/dev/null", 0))));
  EXPECT_EQ(table.find_ring("answer").error().code, ErrorCode::kNotFound);
}

TEST(PeerTableTest, RingOfAnEndedPeerIsLost) {
  PeerTable table;
  const PeerId master = table.join("master").value();
  const auto ring = TokenRing::create(8).value();
  ASSERT_TRUE(table.publish_ring(master, "answer", copy_of(ring->fd())));
  table.end(master);
  EXPECT_EQ(table.find_ring("answer").error().code, ErrorCode::kNotFound);
  TokenRingReader reader(ring);
  EXPECT_EQ(reader.try_next().error().code, ErrorCode::kLost);
}

}  // namespace
}  // namespace suture
