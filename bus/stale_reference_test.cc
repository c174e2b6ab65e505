// A reference to a stream is what a reader keeps while it does something else: the stream's name,
// the owner's slab as it has mapped it, perhaps an attached reader with its copy of the block
// table. There are five ways for it to go stale, one part of this file each. In none of them the
// rows that stand there now are given out as those that were asked for.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bus/broker.h"
#include "bus/broker_client.h"
#include "bus/slab.h"
#include "bus/stream_reader.h"
#include "bus/test_child.h"
#include "bus/test_streams.h"

namespace suture {
namespace {

using std::chrono::seconds;

constexpr const char* kSecret = "stale";
constexpr int64_t kTokens = 64;  // of every stream here: two blocks

// One stream fills it, so that the next one gets the same blocks.
std::shared_ptr<Slab> slab_for_one(PeerId owner) {
  return Slab::create({small_shape(), kTokens, 1, owner}).value();
}

// A whole stream with rows of `salt`.
std::unique_ptr<StreamWriter> write_stream(Slab& slab, uint32_t salt) {
  auto writer = slab.open_stream(small_info(), kTokens).value();
  for (int32_t layer = 0; layer < writer->n_layers(); ++layer) {
    for (int64_t token = 0; token < kTokens; ++token)
      write_row(writer->shape(), writer->layer_view(layer), salt, layer, token);
    writer->commit(layer, kTokens);
  }
  return writer;
}

int64_t wrong_elements_of(const StreamReader& reader, uint32_t salt) {
  int64_t wrong = 0;
  for (int32_t layer = 0; layer < reader.n_layers(); ++layer)
    wrong += wrong_elements(reader.shape(), reader.layer_view(layer), salt, layer, 0, kTokens);
  return wrong;
}

std::set<uint32_t> blocks_of(const KvLayerView& view) {
  return {view.block_ids, view.block_ids + kv_blocks_for(kTokens)};
}

std::string name_of(const Status& status) {
  return status ? "ok" : std::string(error_code_name(status.error().code));
}

template <typename T>
std::string name_of(const Result<T>& result) {
  return result ? "ok" : std::string(error_code_name(result.error().code));
}

// All that a reader can ask before it looks at rows.
void expect_every_way_refused(StreamReader& reader, const std::string& error) {
  EXPECT_EQ(name_of(reader.begin_step()), error);
  EXPECT_EQ(name_of(reader.wait(0, 1, Deadline::min())), error);
  EXPECT_EQ(name_of(reader.wait_all(kTokens, Deadline::min())), error);
}

class StaleReferenceTest : public ::testing::Test {
 protected:
  // Takes the reader for dead, so that its slot may serve another stream.
  void drop_lease() const { ASSERT_EQ(slab_->control().drop_leases_of(PeerId{2}), 1u); }

  std::shared_ptr<Slab> slab_ = slab_for_one(PeerId{1});
  std::shared_ptr<SlabView> view_ =
      SlabView::map(slab_->payload_fd(), slab_->control_fd(), PeerId{2}).value();
};

// --- 1. Reused by the same sequence

// The same text is read again. Its rows are equal bit for bit, and yet another stream's.
TEST_F(StaleReferenceTest, SameSequenceReadAgain) {
  auto writer = write_stream(*slab_, 5);
  const StreamId old = writer->id();
  StreamReader kept = view_->attach(old).value();
  drop_lease();
  writer.reset();
  EXPECT_EQ(name_of(view_->attach(old)), "closed");
  writer = write_stream(*slab_, 5);
  ASSERT_EQ(writer->id().slot, old.slot);
  EXPECT_EQ(name_of(view_->attach(old)), "stale_generation");
  expect_every_way_refused(kept, "stale_generation");
  EXPECT_EQ(name_of(view_->attach(writer->id())), "ok");
}

// The sequence goes on in a fork: the first block is the very same one.
TEST_F(StaleReferenceTest, SameSequenceContinuedInAFork) {
  slab_ = Slab::create({small_shape(), kTokens, 2, PeerId{1}}).value();
  view_ = SlabView::map(slab_->payload_fd(), slab_->control_fd(), PeerId{2}).value();
  auto writer = write_stream(*slab_, 5);
  const StreamId old = writer->id();
  auto fork = slab_->fork_stream(*writer, 40, small_info(), kTokens).value();
  writer.reset();
  EXPECT_EQ(name_of(view_->attach(old)), "closed");
  const StreamReader reader = view_->attach(fork->id()).value();
  EXPECT_EQ(reader.committed(2), 40);
  // Its slot goes to the next fork.
  const auto next = slab_->fork_stream(*fork, 40, small_info(), kTokens).value();
  ASSERT_EQ(next->id().slot, old.slot);
  EXPECT_EQ(name_of(view_->attach(old)), "stale_generation");
}

// --- 2. Reused by another sequence

TEST_F(StaleReferenceTest, AnotherSequenceInTheSameSlot) {
  auto writer = write_stream(*slab_, 5);
  const StreamId old = writer->id();
  StreamReader kept = view_->attach(old).value();
  drop_lease();
  writer.reset();
  writer = write_stream(*slab_, 6);
  ASSERT_EQ(writer->id().slot, old.slot);
  ASSERT_EQ(blocks_of(writer->layer_view(0)), blocks_of(kept.layer_view(0)));
  EXPECT_EQ(name_of(view_->attach(old)), "stale_generation");
  // As many rows as were asked for are committed, all of them another prompt's.
  expect_every_way_refused(kept, "stale_generation");
}

TEST_F(StaleReferenceTest, AnotherSequenceInTheSameBlocks) {
  slab_ = Slab::create({small_shape(), kTokens, 2, PeerId{1}}).value();
  view_ = SlabView::map(slab_->payload_fd(), slab_->control_fd(), PeerId{2}).value();
  auto first = write_stream(*slab_, 4);
  auto second = write_stream(*slab_, 5);
  const StreamId old = second->id();
  const std::set<uint32_t> blocks = blocks_of(second->layer_view(0));
  first.reset();
  second.reset();
  // The lowest slot is taken first, with the blocks that were freed last.
  const auto other = write_stream(*slab_, 6);
  ASSERT_NE(other->id().slot, old.slot);
  ASSERT_EQ(blocks_of(other->layer_view(0)), blocks);
  EXPECT_EQ(name_of(view_->attach(old)), "closed");
}

// --- 3. Reused during the read

// Reads its stream over and over until it is told to end: "rounds wrong-elements".
SUTURE_TEST_CHILD(steady_reader) {
  const std::vector<UniqueFd> fds = parent.hear_fds();
  const auto view = SlabView::map(fds.at(0).get(), fds.at(1).get(), PeerId{2}).value();
  const StreamId id{static_cast<uint32_t>(std::stoul(args[0])), std::stoull(args[1])};
  int64_t wrong = 0;
  {
    const StreamReader reader = view->attach(id).value();
    parent.say("leased");
    for (std::string order = parent.hear(); order == "read"; order = parent.hear()) {
      for (int i = 0; i < 50; ++i) wrong += wrong_elements_of(reader, 5);
      parent.say("read");
    }
  }
  parent.say(std::to_string(wrong) + " wrong, then " + name_of(view->attach(id)));
  return 0;
}

TEST_F(StaleReferenceTest, TheOwnerClosesAndReusesWhileAnotherProcessReads) {
  slab_ = Slab::create({small_shape(), kTokens, 2, PeerId{1}}).value();
  auto writer = write_stream(*slab_, 5);
  const StreamId old = writer->id();
  ChildProcess reader("steady_reader", {std::to_string(old.slot), std::to_string(old.generation)});
  reader.say("slab", std::vector{slab_->payload_fd(), slab_->control_fd()});
  ASSERT_EQ(reader.hear(), "leased");
  writer.reset();
  for (uint32_t round = 0; round < 20; ++round) {
    reader.say("read");  // at the same time as what follows
    const auto other = write_stream(*slab_, 6 + round);
    EXPECT_NE(other->id().slot, old.slot);
    EXPECT_EQ(name_of(slab_->open_stream(small_info(), 1)), "out_of_memory");
    ASSERT_EQ(reader.hear(), "read");
  }
  reader.say("end");
  EXPECT_EQ(reader.hear(), "0 wrong, then closed");
  EXPECT_EQ(reader.wait(), 0);
  EXPECT_EQ(slab_->reclaim(), 1u);
  EXPECT_EQ(slab_->free_blocks(), slab_->n_blocks());
}

// --- 4. After the owner was restarted

// Joins as "owner", publishes one stream of rows of the salt it is told, says the stream's name.
SUTURE_TEST_CHILD(restarted_owner) {
  const auto client = BrokerClient::connect(args[0], kSecret, "owner").value();
  const auto slab = slab_for_one(client->self());
  const auto writer = write_stream(*slab, static_cast<uint32_t>(std::stoul(args[1])));
  if (!client->publish_slab(slab->payload_fd(), slab->control_fd())) return 1;
  parent.say(std::to_string(writer->id().slot));
  parent.say(std::to_string(writer->id().generation));
  parent.hear();
  return 0;
}

class RestartedOwnerTest : public ::testing::Test {
 protected:
  RestartedOwnerTest() {
    BrokerOptions options;
    options.secret = kSecret;
    options.on_peer_end = [this](PeerId, const std::string&, PeerEnd, const std::string&) {
      ++ends_;
      ends_.notify_all();
    };
    broker_ = Broker::start(std::move(options)).value();
    self_ = BrokerClient::connect(broker_->address(), kSecret, "self").value();
  }
  // Its callback uses what is declared after it.
  ~RestartedOwnerTest() override {
    self_.reset();
    broker_.reset();
  }

  void start_owner(uint32_t salt) {
    owner_ = std::make_unique<ChildProcess>("restarted_owner",
                                            std::vector{broker_->address(), std::to_string(salt)});
    id_.slot = static_cast<uint32_t>(std::stoul(owner_->hear()));
    id_.generation = std::stoull(owner_->hear());
  }
  void kill_owner() {
    const int before = ends_;
    owner_->signal(SIGKILL);
    ends_.wait(before);
  }

  std::unique_ptr<Broker> broker_;
  std::unique_ptr<BrokerClient> self_;
  std::unique_ptr<ChildProcess> owner_;
  StreamId id_;  // of the present owner's stream
  std::atomic<int> ends_{0};
};

TEST_F(RestartedOwnerTest, OldNamesMeanNothingInTheNewSlab) {
  start_owner(5);
  const StreamId old = id_;
  const auto old_view = self_->slab("owner").value();
  StreamReader kept = old_view->attach(old).value();
  ASSERT_TRUE(kept.begin_step());
  kill_owner();
  start_owner(6);
  ASSERT_EQ(id_.slot, old.slot);  // like the one before it
  ASSERT_NE(id_, old);

  const auto new_view = self_->slab("owner").value();
  EXPECT_EQ(name_of(new_view->attach(old)), "stale_generation");
  EXPECT_EQ(name_of(old_view->attach(old)), "lost");
  EXPECT_EQ(name_of(old_view->attach(id_)), "stale_generation");
  // The step that has begun ends with the rows it began with.
  EXPECT_EQ(wrong_elements_of(kept, 5), 0);
  EXPECT_EQ(name_of(kept.begin_step()), "lost");
  EXPECT_EQ(wrong_elements_of(new_view->attach(id_).value(), 6), 0);
}

// A reference that was on its way while its owner was restarted: its slab was never mapped here.
TEST_F(RestartedOwnerTest, ANameThatArrivesLateIsStale) {
  start_owner(5);
  const StreamId late = id_;
  kill_owner();
  start_owner(6);
  EXPECT_EQ(name_of(self_->slab("owner").value()->attach(late)), "stale_generation");
}

// --- 5. With a forged or recycled peer id

TEST_F(RestartedOwnerTest, ASlabInAnothersNameIsRefused) {
  start_owner(5);
  const PeerId owner = self_->slab("owner").value()->owner();
  const auto forger = BrokerClient::connect(broker_->address(), kSecret, "forger").value();
  const auto forged = slab_for_one(owner);
  EXPECT_EQ(name_of(forger->publish_slab(forged->payload_fd(), forged->control_fd())), "corrupt");
  EXPECT_EQ(name_of(self_->slab("forger")), "not_found");
  EXPECT_EQ(wrong_elements_of(self_->slab("owner").value()->attach(id_).value(), 5), 0);
}

TEST_F(RestartedOwnerTest, PeerIdsAreNotRecycled) {
  start_owner(5);
  const PeerId first = self_->slab("owner").value()->owner();
  for (int restart = 0; restart < 3; ++restart) {
    kill_owner();
    start_owner(5);
    EXPECT_GT(self_->slab("owner").value()->owner(), first);
  }
}

TEST_F(StaleReferenceTest, ForgedNamesAreStale) {
  const auto writer = write_stream(*slab_, 5);
  const StreamId id = writer->id();
  for (const uint64_t generation : {uint64_t{0}, uint64_t{1}, id.generation - 1, id.generation + 1,
                                    id.generation + (uint64_t{1} << 32), ~uint64_t{0}})
    EXPECT_EQ(name_of(view_->attach({id.slot, generation})), "stale_generation") << generation;
  EXPECT_EQ(name_of(view_->attach({id.slot + 1, id.generation})), "stale_generation");
  EXPECT_EQ(name_of(view_->attach({~0u, id.generation})), "invalid_argument");
  EXPECT_FALSE(slab_->control().has_lease(id.slot));
}

// Whoever leases in the name of another loses the lease with it. That can only hurt himself, and
// even he is told.
TEST_F(StaleReferenceTest, ALeaseInAnothersNameEndsWithIt) {
  auto writer = write_stream(*slab_, 5);
  StreamReader forger = view_->attach(writer->id()).value();
  const auto honest = SlabView::map(slab_->payload_fd(), slab_->control_fd(), PeerId{3}).value();
  drop_lease();  // peer 2, whose name was used, has exited
  writer.reset();
  EXPECT_EQ(slab_->free_blocks(), slab_->n_blocks());
  writer = write_stream(*slab_, 6);
  const StreamReader reader = honest->attach(writer->id()).value();
  expect_every_way_refused(forger, "stale_generation");
  // The slot of the lease is another's now, and stays his when the forger goes.
  { const StreamReader gone = std::move(forger); }
  writer.reset();
  EXPECT_EQ(slab_->deferred_streams(), 1u);
  EXPECT_EQ(wrong_elements_of(reader, 6), 0);
}

// A process that was given a dead reader's id would lose its leases to that one's end.
TEST_F(StaleReferenceTest, TheEndOfAPeerLeavesItsSuccessorsLeases) {
  auto writer = write_stream(*slab_, 5);
  const StreamReader dead = view_->attach(writer->id()).value();
  const auto successors = SlabView::map(slab_->payload_fd(), slab_->control_fd(), PeerId{4});
  const StreamReader reader = (*successors)->attach(writer->id()).value();
  drop_lease();
  writer.reset();
  EXPECT_EQ(slab_->deferred_streams(), 1u);
  EXPECT_EQ(name_of(slab_->open_stream(small_info(), 1)), "out_of_memory");
  EXPECT_EQ(wrong_elements_of(reader, 5), 0);
}

}  // namespace
}  // namespace suture
