#include "bus/broker.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "bus/broker_client.h"
#include "bus/broker_wire.h"
#include "bus/slab.h"
#include "bus/stream_reader.h"
#include "bus/test_broker.h"
#include "bus/test_child.h"
#include "bus/test_freeze.h"
#include "bus/token_ring.h"

namespace suture {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kSecret = "open sesame";
constexpr KvShape kShape = {2, 1, 8, DType::kF32};

struct End {
  PeerId peer;
  std::string name;
  PeerEnd end;
  std::string detail;
};

// A broker that looks often, and what it reported.
class BrokerTest : public ::testing::Test {
 protected:
  explicit BrokerTest(milliseconds hung_after = seconds(60),
                      milliseconds hello_bound = seconds(60)) {
    BrokerOptions options;
    options.secret = kSecret;
    options.look_interval = milliseconds(10);
    options.hung_after = hung_after;
    options.hello_bound = hello_bound;
    options.on_peer_end = [this](PeerId peer, const std::string& name, PeerEnd end,
                                 const std::string& detail) {
      const std::lock_guard lock(mutex_);
      ends_.push_back({peer, name, end, detail});
      changed_.notify_all();
    };
    options.on_peer_joined = [this](PeerId, const std::string& name, pid_t pid) {
      const std::lock_guard lock(mutex_);
      joined_.emplace_back(name, pid);
    };
    broker_ = Broker::start(std::move(options)).value();
  }
  ~BrokerTest() override { broker_.reset(); }

  std::unique_ptr<BrokerClient> client(const std::string& name) {
    return BrokerClient::connect(broker_->address(), kSecret, name).value();
  }
  std::unique_ptr<ChildProcess> child(const std::string& entry, const std::string& name) {
    return std::make_unique<ChildProcess>(
        entry, std::vector<std::string>{broker_->address(), kSecret, name});
  }
  // The end of the peer of this name; fails the test when it does not come.
  End end_of(const std::string& name) {
    std::unique_lock lock(mutex_);
    const auto found = [&] {
      return std::find_if(ends_.begin(), ends_.end(), [&](const End& e) { return e.name == name; });
    };
    if (!changed_.wait_for(lock, seconds(60), [&] { return found() != ends_.end(); })) {
      ADD_FAILURE() << name << " did not end";
      return {};
    }
    return *found();
  }
  std::vector<std::pair<std::string, pid_t>> joined() {
    const std::lock_guard lock(mutex_);
    return joined_;
  }
  size_t n_ends() {
    const std::lock_guard lock(mutex_);
    return ends_.size();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<End> ends_;
  std::vector<std::pair<std::string, pid_t>> joined_;
  std::unique_ptr<Broker> broker_;
};

std::unique_ptr<BrokerClient> connect_as_told(std::span<char* const> args) {
  auto client = BrokerClient::connect(args[0], args[1], args[2]);
  if (!client) fmt::print(stderr, "{}\n", client.error().message());
  return client ? std::move(*client) : nullptr;
}

std::shared_ptr<Slab> new_slab(PeerId owner) {
  return Slab::create({kShape, 64, 2, owner}).value();
}

std::unique_ptr<StreamWriter> new_stream(Slab& slab) {
  StreamInfo info;
  info.shape = kShape;
  return slab.open_stream(info, 64).value();
}

std::string text_of(StreamId id) { return fmt::format("{} {}", id.slot, id.generation); }

StreamId stream_id_of(const std::string& text) {
  StreamId id;
  unsigned long long generation = 0;
  EXPECT_EQ(std::sscanf(text.c_str(), "%u %llu", &id.slot, &generation), 2) << text;
  id.generation = generation;
  return id;
}

// Joins, says its id, stays until told to go.
SUTURE_TEST_CHILD(peer) {
  const auto client = connect_as_told(args);
  parent.say(std::to_string(client->self().value));
  parent.hear();
  return 7;
}

// Tells the parent when the broker has gone.
SUTURE_TEST_CHILD(watching_peer) {
  std::promise<void> gone;
  const auto client =
      BrokerClient::connect(args[0], args[1], args[2], [&] { gone.set_value(); }).value();
  parent.say("joined");
  gone.get_future().wait();
  parent.say("gone");
  return 0;
}

// Publishes a stream of 64 tokens, commits 4 of them, and does nothing more: no heartbeat either.
SUTURE_TEST_CHILD(owner) {
  const auto client = connect_as_told(args);
  const auto slab = new_slab(client->self());
  const auto stream = new_stream(*slab);
  for (int layer = 0; layer < kShape.n_layers; ++layer) {
    std::memcpy(kv_block_rows(kShape, stream->layer_view(layer), 0, 0).key, args[2], 4);
    stream->commit(layer, 4);
  }
  if (!client->publish_slab(slab->payload_fd(), slab->control_fd())) return 1;
  parent.say(text_of(stream->id()));
  parent.hear();
  return 0;
}

// Publishes a slab without a stream and does nothing but show a heartbeat.
SUTURE_TEST_CHILD(slow_peer) {
  const auto client = connect_as_told(args);
  const auto slab = new_slab(client->self());
  std::jthread heart([&](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    while (!wake.wait_for(lock, stop, milliseconds(20), [&] { return stop.stop_requested(); })) {
      slab->heartbeat();
    }
  });
  if (!client->publish_slab(slab->payload_fd(), slab->control_fd())) return 1;
  parent.say("published");
  parent.hear();
  return 0;
}

// Takes a lease on a stream of peer "owner" and keeps it.
SUTURE_TEST_CHILD(reader) {
  const auto client = connect_as_told(args);
  const auto view = client->slab("owner").value();
  const auto reader = view->attach(stream_id_of(parent.hear())).value();
  parent.say("leased");
  parent.hear();
  return 0;
}

TEST_F(BrokerTest, AddressIsAbstractAndRandom) {
  BrokerOptions options;
  options.secret = kSecret;
  const auto other = Broker::start(options).value();
  EXPECT_NE(other->address(), broker_->address());
}

TEST_F(BrokerTest, SecretIsNeeded) {
  EXPECT_EQ(Broker::start({}).error().code, ErrorCode::kInvalidArgument);
  for (const char* wrong : {"", "open sesam", "open sesame ", "Open sesame"}) {
    EXPECT_EQ(BrokerClient::connect(broker_->address(), wrong, "peer").error().code,
              ErrorCode::kPermission)
        << wrong;
  }
  EXPECT_TRUE(BrokerClient::connect(broker_->address(), kSecret, "peer"));
}

TEST_F(BrokerTest, LiveNameIsRefused) {
  const auto first = client("peer");
  EXPECT_EQ(BrokerClient::connect(broker_->address(), kSecret, "peer").error().code,
            ErrorCode::kBusy);
  EXPECT_TRUE(BrokerClient::connect(broker_->address(), kSecret, "other"));
}

TEST_F(BrokerTest, PeerInOurProcessEndsWhenItDisconnects) {
  const PeerId first = client("peer")->self();
  const End end = end_of("peer");
  EXPECT_EQ(end.peer, first);
  EXPECT_EQ(end.end, PeerEnd::kExited);
  EXPECT_EQ(end.detail, "disconnected");
  EXPECT_GT(client("peer")->self(), first);
}

TEST_F(BrokerTest, ExitOfAProcessFreesItsNameForANewPeer) {
  const auto first = child("peer", "peer");
  const std::string first_id = first->hear();
  EXPECT_EQ(joined(), (std::vector{std::pair(std::string("peer"), first->pid())}));
  first->say("go");
  const End end = end_of("peer");
  EXPECT_EQ(end.end, PeerEnd::kExited);
  EXPECT_EQ(end.detail, fmt::format("process {} ended with status 7", first->pid()));
  EXPECT_EQ(std::to_string(end.peer.value), first_id);
  const auto second = child("peer", "peer");
  EXPECT_GT(std::stoull(second->hear()), std::stoull(first_id));
}

TEST_F(BrokerTest, KilledProcessIsReported) {
  const auto peer = child("peer", "peer");
  peer->hear();
  peer->signal(SIGKILL);
  const End end = end_of("peer");
  EXPECT_EQ(end.end, PeerEnd::kExited);
  EXPECT_EQ(end.detail, fmt::format("process {} ended by signal 9 (Killed)", peer->pid()));
}

TEST_F(BrokerTest, SlabOfAnotherProcessIsReadInPlace) {
  const auto self = client("self");
  EXPECT_EQ(self->slab("owner").error().code, ErrorCode::kNotFound);
  const auto owner = child("owner", "owner");
  const StreamId id = stream_id_of(owner->hear());
  const auto view = self->slab("owner").value();
  EXPECT_EQ(self->slab("owner").value(), view);  // imported once
  auto reader = view->attach(id).value();
  ASSERT_TRUE(reader.wait_all(4, deadline_in(seconds(60))));
  const auto* key = kv_block_rows(kShape, reader.layer_view(1), 0, 0).key;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(key), 4), "owne");
}

TEST_F(BrokerTest, RestartedOwnerIsImportedAnew) {
  const auto self = client("self");
  auto owner = child("owner", "owner");
  const StreamId old_id = stream_id_of(owner->hear());
  const auto old_view = self->slab("owner").value();
  owner->signal(SIGKILL);
  end_of("owner");
  EXPECT_TRUE(old_view->owner_lost());
  EXPECT_EQ(self->slab("owner").error().code, ErrorCode::kNotFound);
  owner = child("owner", "owner");
  const StreamId id = stream_id_of(owner->hear());
  const auto new_view = self->slab("owner").value();
  EXPECT_GT(new_view->owner(), old_view->owner());
  EXPECT_TRUE(new_view->attach(id));
  EXPECT_EQ(old_view->attach(old_id).error().code, ErrorCode::kLost);
  // Both incarnations opened their first stream in the same slot.
  EXPECT_EQ(id.slot, old_id.slot);
  EXPECT_EQ(new_view->attach(old_id).error().code, ErrorCode::kStaleGeneration);
}

TEST_F(BrokerTest, KilledOwnerWakesItsReaders) {
  const auto self = client("self");
  const auto owner = child("owner", "owner");
  const StreamId id = stream_id_of(owner->hear());
  auto reader = self->slab("owner").value()->attach(id).value();
  auto waiting =
      std::async(std::launch::async, [&] { return reader.wait_all(5, deadline_in(seconds(60))); });
  owner->signal(SIGKILL);
  EXPECT_EQ(waiting.get().error().code, ErrorCode::kLost);
  EXPECT_EQ(end_of("owner").end, PeerEnd::kExited);
  EXPECT_TRUE(reader.wait_all(4, deadline_in(seconds(60))));  // what was committed stays readable
}

TEST_F(BrokerTest, KilledReaderGivesItsBlocksBack) {
  const auto self = client("owner");
  const auto slab = new_slab(self->self());
  ASSERT_TRUE(self->publish_slab(slab->payload_fd(), slab->control_fd()));
  auto stream = new_stream(*slab);
  const auto reader = child("reader", "reader");
  reader->say(text_of(stream->id()));
  ASSERT_EQ(reader->hear(), "leased");
  stream.reset();
  EXPECT_EQ(slab->reclaim(), 0u);
  EXPECT_LT(slab->free_blocks(), slab->n_blocks());
  reader->signal(SIGKILL);
  end_of("reader");
  EXPECT_EQ(slab->reclaim(), 1u);
  EXPECT_EQ(slab->free_blocks(), slab->n_blocks());
}

TEST_F(BrokerTest, StoppedProcessIsKilledAndItsLeasesAreDropped) {
  const auto self = client("owner");
  const auto slab = new_slab(self->self());
  ASSERT_TRUE(self->publish_slab(slab->payload_fd(), slab->control_fd()));
  const auto stream = new_stream(*slab);
  const auto reader = child("reader", "reader");
  reader->say(text_of(stream->id()));
  ASSERT_EQ(reader->hear(), "leased");
  reader->signal(SIGSTOP);
  EXPECT_EQ(end_of("reader").end, PeerEnd::kStopped);
  EXPECT_FALSE(slab->control().has_lease(stream->id().slot));
  EXPECT_EQ(reader->wait(), -SIGKILL);
}

TEST_F(BrokerTest, RingGoesFromPeerToPeer) {
  const auto master = client("master");
  const auto slave = client("slave");
  const auto ring = TokenRing::create(8).value();
  ASSERT_TRUE(master->publish_ring("answer", ring->fd()));
  EXPECT_EQ(slave->publish_ring("answer", ring->fd()).error().code, ErrorCode::kBusy);
  ring->grant(1);
  ASSERT_TRUE(TokenRingWriter::open(ring).value().push(42));
  const UniqueFd fd = slave->ring("answer").value();
  TokenRingReader reader(TokenRing::attach(fd.get()).value());
  EXPECT_EQ(reader.try_next().value()->id, 42);
  EXPECT_EQ(slave->withdraw_ring("answer").error().code, ErrorCode::kPermission);
  ASSERT_TRUE(master->withdraw_ring("answer"));
  EXPECT_EQ(slave->ring("answer").error().code, ErrorCode::kNotFound);
}

TEST_F(BrokerTest, EveryProcessNoticesWhenTheBrokerIsGone) {
  const auto peer = child("watching_peer", "peer");
  ASSERT_EQ(peer->hear(), "joined");
  const auto self = client("self");
  broker_.reset();
  EXPECT_EQ(peer->hear(), "gone");
  EXPECT_EQ(self->ring("answer").error().code, ErrorCode::kClosed);
}

// --- What strangers and faulty peers send

BrokerRequestData hello_of(const std::string& name) {
  return broker_request(BrokerRequest::kHello, name, kSecret);
}

ErrorCode refusal_of(const FdChannel& channel, const BrokerRequestData& request) {
  EXPECT_TRUE(send_request(channel, request));
  const auto reply = receive_reply(channel);
  EXPECT_TRUE(reply && reply->failed == 1);
  EXPECT_EQ(receive_reply(channel).error().code, ErrorCode::kClosed);  // and hung up on
  return static_cast<ErrorCode>(reply->error);
}

TEST_F(BrokerTest, OtherVersionIsRefused) {
  const auto channel = FdChannel::connect(broker_->address()).value();
  BrokerRequestData hello = hello_of("peer");
  hello.version.version = kBrokerVersion + 1;
  EXPECT_EQ(refusal_of(channel, hello), ErrorCode::kIncompatible);
}

TEST_F(BrokerTest, NothingIsAnsweredBeforeTheSecret) {
  const auto channel = FdChannel::connect(broker_->address()).value();
  BrokerRequestData request = hello_of("peer");
  request.kind = static_cast<uint32_t>(BrokerRequest::kFindSlab);
  EXPECT_EQ(refusal_of(channel, request), ErrorCode::kPermission);
}

TEST_F(BrokerTest, UnknownRequestsAndEndlessNamesAreRefused) {
  auto channel = FdChannel::connect(broker_->address()).value();
  BrokerRequestData endless = hello_of("peer");
  endless.name.bytes.fill('x');
  EXPECT_EQ(refusal_of(channel, endless), ErrorCode::kCorrupt);

  channel = FdChannel::connect(broker_->address()).value();
  BrokerRequestData request = hello_of("peer");
  ASSERT_TRUE(send_request(channel, request));
  ASSERT_EQ(receive_reply(channel)->failed, 0u);
  request.kind = 99;
  EXPECT_EQ(refusal_of(channel, request), ErrorCode::kCorrupt);
}

TEST_F(BrokerTest, GarbageHurtsOnlyWhoSendsIt) {
  const auto peer = client("peer");
  for (const size_t size : {size_t{1}, sizeof(BrokerVersionData), sizeof(BrokerRequestData),
                            FdChannel::kMaxBytes, FdChannel::kMaxBytes + 1, size_t{100'000}}) {
    const auto channel = FdChannel::connect(broker_->address()).value();
    const std::vector<std::byte> garbage(size, std::byte{0xa5});
    ASSERT_EQ(::send(channel.fd(), garbage.data(), size, 0), static_cast<ssize_t>(size));
    // Either hung up on at once, or told why first.
    auto reply = receive_reply(channel);
    if (reply) reply = receive_reply(channel);
    EXPECT_EQ(reply.error().code, ErrorCode::kClosed) << size;
  }
  EXPECT_EQ(peer->ring("answer").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(n_ends(), 0u);
}

TEST_F(BrokerTest, WrongDescriptorsAreRefused) {
  const auto peer = client("peer");
  const auto slab = new_slab(peer->self());
  EXPECT_FALSE(peer->publish_slab(slab->control_fd(), slab->payload_fd()));
}

// The broker has looked at least twice at one that stands still when it ends another for being
// stopped.
TEST_F(BrokerTest, StarvedProcessIsWaitedFor) {
  const auto starved = child("peer", "starved");
  ASSERT_NE(starved->hear(), "");
  const auto stopped = child("peer", "stopped");
  ASSERT_NE(stopped->hear(), "");
  {
    const auto frozen = freeze(starved->pid());
    ASSERT_TRUE(frozen) << frozen.error().message();
    stopped->signal(SIGSTOP);
    EXPECT_EQ(end_of("stopped").end, PeerEnd::kStopped);
  }
  EXPECT_EQ(n_ends(), 1u);
  starved->say("go");
  EXPECT_EQ(starved->wait(), 7);
}

class ImpatientBrokerTest : public BrokerTest {
 protected:
  ImpatientBrokerTest() : BrokerTest(milliseconds(1500), milliseconds(50)) {}
};

TEST_F(ImpatientBrokerTest, SilentConnectionIsClosed) {
  const auto channel = FdChannel::connect(broker_->address()).value();
  EXPECT_EQ(receive_reply(channel).error().code, ErrorCode::kClosed);
  EXPECT_EQ(n_ends(), 0u);
}

TEST_F(ImpatientBrokerTest, HungProcessIsKilledAndASlowOneIsNot) {
  const auto slow = child("slow_peer", "slow");
  ASSERT_EQ(slow->hear(), "published");
  const auto waiting = child("peer", "nothing published yet");
  ASSERT_NE(waiting->hear(), "");
  const auto hung = child("owner", "hung");
  EXPECT_NE(hung->hear(), "");
  EXPECT_EQ(end_of("hung").end, PeerEnd::kHung);
  EXPECT_EQ(hung->wait(), -SIGKILL);
  // Both have been looked at for longer than the one that was killed.
  EXPECT_EQ(n_ends(), 1u);
}

TEST_F(ImpatientBrokerTest, HungBeforeItsFirstHeartbeatIsKilledAndAnIdleOneIsNot) {
  const auto idle = child("peer", "idle");
  ASSERT_NE(idle->hear(), "");
  const auto hung = child("peer", "hung");
  ASSERT_NE(hung->hear(), "");
  const auto frozen = freeze(hung->pid());
  ASSERT_TRUE(frozen) << frozen.error().message();
  EXPECT_EQ(end_of("hung").end, PeerEnd::kHung);
  EXPECT_EQ(hung->wait(), -SIGKILL);
  EXPECT_EQ(n_ends(), 1u);
}

}  // namespace
}  // namespace suture
