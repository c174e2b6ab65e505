// Whom the broker refuses, and that nobody else notices.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/test_fuzz.h"
#include "base/test_process_use.h"
#include "bus/broker.h"
#include "bus/broker_client.h"
#include "bus/doorbell.h"
#include "bus/memfd.h"
#include "bus/slab.h"
#include "bus/stream_reader.h"
#include "bus/test_broker.h"
#include "bus/test_child.h"
#include "bus/token_ring.h"

namespace suture {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kSecret = "open sesame";
constexpr KvShape kShape = {2, 1, 8, DType::kF32};

// A broker that knows a launcher, a master and two slaves.
class BrokerIntruderTest : public ::testing::Test {
 protected:
  BrokerIntruderTest() {
    BrokerOptions options;
    options.secret = kSecret;
    options.hello_bound = seconds(60);
    options.rights = RightsByName{
        {"launcher", {.reads = {"master", "a", "b"}, .publishes_rings = true}},
        {"master", {.reads = {"a", "b"}, .opens_rings = true}},
        {"a", {.opens_rings = true, .shares_blobs = true}},
        {"b", {.opens_rings = true}},
    };
    broker_ = Broker::start(std::move(options)).value();
  }

  std::unique_ptr<BrokerClient> client(const std::string& name) {
    return BrokerClient::connect(broker_->address(), kSecret, name).value();
  }
  FdChannel stranger() { return FdChannel::connect(broker_->address()).value(); }

  std::unique_ptr<Broker> broker_;
};

std::shared_ptr<Slab> publish_slab(BrokerClient& client) {
  auto slab = Slab::create({kShape, 64, 2, client.self()}).value();
  EXPECT_TRUE(client.publish_slab(slab->payload_fd(), slab->control_fd()));
  return slab;
}

ErrorCode slab_refusal(BrokerClient& client, const std::string& owner) {
  const auto slab = client.slab(owner);
  return slab ? ErrorCode::kInvalidArgument : slab.error().code;
}

// Raw bytes and descriptors, whether the protocol allows them or not.
void send_raw(const FdChannel& channel, const std::string& bytes, const std::vector<int>& fds) {
  std::string content = bytes;
  iovec data = {content.data(), content.size()};
  std::vector<std::byte> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  }
  ::sendmsg(channel.fd(), &header, MSG_NOSIGNAL);  // the broker may have hung up already
}

TEST_F(BrokerIntruderTest, OnlyNamesOfTheLaunchJoin) {
  const auto refused = BrokerClient::connect(broker_->address(), kSecret, "stranger");
  EXPECT_EQ(refused.error().code, ErrorCode::kPermission);
  EXPECT_TRUE(BrokerClient::connect(broker_->address(), kSecret, "a"));
}

TEST_F(BrokerIntruderTest, AReaderGetsNoSlabThatItWasNotGiven) {
  const auto launcher = client("launcher");
  const auto master = client("master");
  const auto a = client("a");
  const auto b = client("b");
  // The same answer whether there is a slab, only a peer, or nobody.
  EXPECT_EQ(slab_refusal(*a, "b"), ErrorCode::kPermission);
  const auto slab = publish_slab(*b);
  for (const char* owner : {"b", "master", "a", "nobody"})
    EXPECT_EQ(slab_refusal(*a, owner), ErrorCode::kPermission) << owner;
  EXPECT_TRUE(master->slab("b"));
  EXPECT_TRUE(launcher->slab("b"));
  EXPECT_EQ(slab_refusal(*master, "a"), ErrorCode::kNotFound);
  EXPECT_EQ(slab_refusal(*master, "launcher"), ErrorCode::kPermission);
}

TEST_F(BrokerIntruderTest, OnlyTheLauncherPublishesRings) {
  const auto launcher = client("launcher");
  const auto a = client("a");
  const auto ring = TokenRing::create(8).value();
  EXPECT_EQ(a->publish_ring("answer/1", ring->fd()).error().code, ErrorCode::kPermission);
  EXPECT_EQ(a->ring("answer/1").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(launcher->publish_ring("answer/1", ring->fd()));
  EXPECT_TRUE(a->ring("answer/1"));
  EXPECT_EQ(launcher->ring("answer/1").error().code, ErrorCode::kPermission);
}

// --- Another user

void become_another_user() {
  constexpr id_t kNobody = 65534;
  ASSERT_EQ(::setgroups(0, nullptr), 0);
  ASSERT_EQ(::setresgid(kNobody, kNobody, kNobody), 0);
  ASSERT_EQ(::setresuid(kNobody, kNobody, kNobody), 0);
  ::prctl(PR_SET_DUMPABLE, 1);  // the leak sanitizer looks at its own threads
}

// Knows address, name and even the secret. Says how it was received.
SUTURE_TEST_CHILD(another_user) {
  become_another_user();
  const auto joined = join_by_hand(args[0], args[1], "a");
  parent.say(joined ? "joined" : std::string(error_code_name(joined.error().code)));
  const auto polite = BrokerClient::connect(args[0], args[1], "a");
  parent.say(polite ? "joined" : std::string(error_code_name(polite.error().code)));
  return 0;
}

TEST_F(BrokerIntruderTest, AnotherUserIsHungUpOn) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can play another user";
  const ChildProcess other("another_user", {broker_->address(), kSecret});
  EXPECT_EQ(other.hear(), "closed");
  EXPECT_EQ(other.hear(), "permission");  // nor does our client talk to another user's broker
  EXPECT_TRUE(client("a"));
}

// --- Floods

// Connects as often as it was told and says nothing.
SUTURE_TEST_CHILD(flooder) {
  std::vector<FdChannel> channels;
  for (int i = std::stoi(args[1]); i > 0; --i)
    channels.push_back(FdChannel::connect(args[0]).value());
  // The oldest are hung up on; then all that the broker does about the others is done.
  const Status hung_up = channels.front().wait_readable(deadline_in(seconds(60)));
  parent.say(hung_up ? "hung up on" : "kept");
  parent.hear();
  return 0;
}

TEST_F(BrokerIntruderTest, AFloodOfSilentConnectionsCrowdsOutItself) {
  const ProcessUse before = process_use();
  const FdChannel patient = stranger();
  const ChildProcess flooder("flooder", {broker_->address(), "200"});
  ASSERT_EQ(flooder.hear(), "hung up on");
  EXPECT_TRUE(client("master"));
  ASSERT_TRUE(send_request(patient, broker_request(BrokerRequest::kHello, "a", kSecret)));
  EXPECT_EQ(receive_reply(patient).value().failed, 0u);
  // 64 connections, each with a pidfd, and this test's own.
  EXPECT_LE(process_use().descriptors, before.descriptors + 2 * 64 + 8);
}

TEST_F(BrokerIntruderTest, APeerThatReadsNoRepliesIsHungUpOn) {
  const auto master = client("master");
  const FdChannel deaf = join_by_hand(broker_->address(), kSecret, "a").value();
  const auto request = broker_request(BrokerRequest::kFindRing, "answer/1");
  Status sent;
  do {
    sent = send_request(deaf, request);
    if (!sent && sent.error().code == ErrorCode::kBusy) {
      ASSERT_EQ(master->ring("answer/1").error().code, ErrorCode::kNotFound);
      sent = Status();
    }
  } while (sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kClosed);
  EXPECT_EQ(master->ring("answer/1").error().code, ErrorCode::kNotFound);
}

// --- Anything at all

// Descriptors of all kinds, sound and unsound.
class Descriptors {
 public:
  Descriptors() {
    int ends[2] = {};
    SUTURE_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "errno={}", errno);
    own_.emplace_back(ends[0]);
    own_.emplace_back(ends[1]);
    SUTURE_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "errno={}",
                 errno);
    own_.emplace_back(ends[0]);
    own_.emplace_back(ends[1]);
    for (const char* path : {"/dev/null", "/proc/self/exe", "/", "/dev/zero"})
      own_.emplace_back(::open(path, O_RDONLY | O_CLOEXEC));
    own_.emplace_back(::eventfd(0, EFD_CLOEXEC));
    own_.push_back(create_memfd("unsealed", 4096).value());
    own_.push_back(create_memfd("sealed", 64 * 1024).value());
    SUTURE_CHECK(seal_memfd(own_.back().get(), F_SEAL_SHRINK | F_SEAL_GROW), "not sealed");
    for (const auto& fd : own_) all_.push_back(fd.get());
    for (const int fd : {slab_->payload_fd(), slab_->control_fd(), ring_->fd()}) all_.push_back(fd);
  }

  std::vector<int> some(FuzzRandom& random) const {
    std::vector<int> fds(random.one_in(2) ? 0 : random.below(8));
    for (int& fd : fds) fd = all_[random.below(all_.size())];
    return fds;
  }

 private:
  std::vector<UniqueFd> own_;
  std::shared_ptr<Slab> slab_ = Slab::create({kShape, 64, 2, PeerId{1}}).value();
  std::shared_ptr<TokenRing> ring_ = TokenRing::create(8).value();
  std::vector<int> all_;
};

std::string any_message(FuzzRandom& random) {
  if (random.one_in(8)) return random.bytes(random.below(2 * FdChannel::kMaxBytes));
  constexpr std::array kNames = {"a", "b", "master", "launcher", "answer/1", ""};
  auto request =
      broker_request(static_cast<BrokerRequest>(random.below(11)),
                     kNames[random.below(kNames.size())], random.one_in(2) ? kSecret : "wrong");
  request.serial = random.below(3);
  request.blob_bytes = random.one_in(4) ? ~uint64_t{0} : 4096 * random.below(3);
  const std::string valid(reinterpret_cast<const char*>(&request), sizeof(request));
  return random.one_in(2) ? valid : random.damaged(valid);
}

TEST_F(BrokerIntruderTest, FuzzedMessagesDisturbNobody) {
  const Descriptors descriptors;
  const auto launcher = client("launcher");
  const auto master = client("master");
  const auto slab = publish_slab(*master);
  const ProcessUse before = process_use();
  for (uint64_t round = 0; round < fuzz_rounds(500); ++round) {
    FuzzRandom random(round);
    const FdChannel intruder = stranger();
    if (random.one_in(2))
      send_request(intruder, broker_request(BrokerRequest::kHello, "a", kSecret));
    for (size_t messages = random.below(6); messages > 0; --messages)
      send_raw(intruder, any_message(random), descriptors.some(random));
    ASSERT_EQ(master->ring("none").error().code, ErrorCode::kNotFound) << "round " << round;
  }
  EXPECT_TRUE(launcher->slab("master"));
  EXPECT_LE(settled_use(before), before);
}

TEST_F(BrokerIntruderTest, DescriptorsOfAMessageWithoutBytesAreClosed) {
  const ProcessUse before = process_use();
  for (int i = 0; i < 8; ++i) {
    const FdChannel intruder = stranger();
    send_raw(intruder, "", {intruder.fd(), intruder.fd()});
    EXPECT_EQ(receive_reply(intruder).error().code, ErrorCode::kClosed);
  }
  EXPECT_LE(settled_use(before), before);
}

}  // namespace
}  // namespace suture
