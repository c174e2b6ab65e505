// One blob for several processes, and what becomes of it when they fail.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <future>
#include <memory>
#include <vector>

#include "base/test_process_use.h"
#include "bus/broker.h"
#include "bus/broker_client.h"
#include "bus/memfd.h"
#include "bus/test_broker.h"
#include "bus/test_child.h"

namespace suture {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kSecret = "open sesame";
constexpr const char* kKey = "weights";
constexpr uint64_t kBytes = 3 << 20;  // more than one huge page, and no whole number of them

Status fill_with(std::span<std::byte> bytes, int value) {
  std::ranges::fill(bytes, static_cast<std::byte>(value));
  return {};
}

// What all its bytes are.
int value_of(const Mapping& blob) {
  const std::byte first = blob.bytes().front();
  const bool all = std::ranges::all_of(blob.bytes(), [&](std::byte b) { return b == first; });
  return all && blob.size() == kBytes ? std::to_integer<int>(first) : -1;
}

// Arguments: address, name, value to fill in. Asks when told to; says "filling" if it is its turn,
// and fills when told to, or fails. Then says what the blob holds, and keeps it until told to go.
SUTURE_TEST_CHILD(sharer) {
  const auto client = BrokerClient::connect(args[0], kSecret, args[1]).value();
  parent.say("joined");
  parent.hear();
  const auto blob = client->shared_blob(kKey, kBytes, [&](std::span<std::byte> bytes) -> Status {
    parent.say("filling");
    if (parent.hear() == "fail") return fail(ErrorCode::kIo, "cannot");
    return fill_with(bytes, std::stoi(args[2]));
  });
  parent.say(blob ? std::to_string(value_of(*blob)) : blob.error().what);
  parent.hear();
  return 0;
}

class SharedBlobProcessTest : public testing::Test {
 protected:
  explicit SharedBlobProcessTest(milliseconds blob_bound = seconds(600)) {
    BrokerOptions options;
    options.secret = kSecret;
    options.look_interval = milliseconds(10);
    options.blob_bound = blob_bound;
    options.rights = RightsByName{};
    for (const char* name : {"a", "b", "c", "self"}) (*options.rights)[name].shares_blobs = true;
    (*options.rights)["stranger"] = {};
    broker_ = Broker::start(std::move(options)).value();
  }

  std::unique_ptr<ChildProcess> sharer(const std::string& name, int value) const {
    auto child = std::make_unique<ChildProcess>(
        "sharer", std::vector<std::string>{broker_->address(), name, std::to_string(value)});
    EXPECT_EQ(child->hear(), "joined");
    return child;
  }
  std::unique_ptr<BrokerClient> client(const std::string& name) const {
    return BrokerClient::connect(broker_->address(), kSecret, name).value();
  }
  // The next of this name, as soon as the last one has ended.
  std::unique_ptr<BrokerClient> next_of(const std::string& name) const {
    while (true) {
      auto next = BrokerClient::connect(broker_->address(), kSecret, name);
      if (next) return std::move(*next);
      EXPECT_EQ(next.error().code, ErrorCode::kBusy);
    }
  }
  // `builder` fills the blob, and `next` waits for it.
  static void wait_behind(ChildProcess& builder, ChildProcess& next) {
    builder.say("ask");
    ASSERT_EQ(builder.hear(), "filling");
    next.say("ask");
  }
  // The turn has come to `next`, which fills in its value.
  static void expect_built(ChildProcess& next, const std::string& value) {
    ASSERT_EQ(next.hear(), "filling");
    next.say("fill");
    EXPECT_EQ(next.hear(), value);
  }
  // What the blob holds for a peer that would fill in 9.
  static int value_for(BrokerClient& client) {
    const auto blob = client.shared_blob(
        kKey, kBytes, [](std::span<std::byte> bytes) { return fill_with(bytes, 9); });
    EXPECT_TRUE(blob) << blob.error().message();
    return blob ? value_of(*blob) : -1;
  }

  std::unique_ptr<Broker> broker_;
};

TEST_F(SharedBlobProcessTest, ProcessesShareWhatTheFirstBuilt) {
  const auto a = sharer("a", 1);
  const auto b = sharer("b", 2);
  ASSERT_NO_FATAL_FAILURE(wait_behind(*a, *b));
  a->say("fill");
  EXPECT_EQ(a->hear(), "1");
  EXPECT_EQ(b->hear(), "1");
  EXPECT_EQ(value_for(*client("self")), 1);  // who comes late, too
}

// The broker keeps it for those who use it, not longer.
TEST_F(SharedBlobProcessTest, ItLivesAsLongAsAProcessThatUsesIt) {
  const auto a = sharer("a", 1);
  const auto b = sharer("b", 2);
  ASSERT_NO_FATAL_FAILURE(wait_behind(*a, *b));
  a->say("fill");
  ASSERT_EQ(b->hear(), "1");
  a->signal(SIGKILL);
  // Once a process has ended its name is free again, and what it held is held no more.
  const auto restarted = next_of("a");
  EXPECT_EQ(value_for(*restarted), 1);
  b->signal(SIGKILL);
  EXPECT_EQ(value_for(*next_of("b")), 1);  // held by the other still
}

TEST_F(SharedBlobProcessTest, ItIsBuiltAnewAfterTheLastOfThemHasEnded) {
  const auto a = sharer("a", 1);
  a->say("ask");
  ASSERT_EQ(a->hear(), "filling");
  a->say("fill");
  ASSERT_EQ(a->hear(), "1");
  a->signal(SIGKILL);
  EXPECT_EQ(value_for(*next_of("a")), 9);
}

TEST_F(SharedBlobProcessTest, WhenTheBuilderIsKilledTheNextBuilds) {
  const auto a = sharer("a", 1);
  const auto b = sharer("b", 2);
  ASSERT_NO_FATAL_FAILURE(wait_behind(*a, *b));
  a->signal(SIGKILL);
  ASSERT_NO_FATAL_FAILURE(expect_built(*b, "2"));
}

TEST_F(SharedBlobProcessTest, AStoppedBuilderIsReplaced) {
  const auto a = sharer("a", 1);
  const auto b = sharer("b", 2);
  ASSERT_NO_FATAL_FAILURE(wait_behind(*a, *b));
  a->signal(SIGSTOP);
  ASSERT_NO_FATAL_FAILURE(expect_built(*b, "2"));
}

TEST_F(SharedBlobProcessTest, WhenFillingFailsTheNextBuilds) {
  const auto a = sharer("a", 1);
  const auto b = sharer("b", 2);
  ASSERT_NO_FATAL_FAILURE(wait_behind(*a, *b));
  a->say("fail");
  EXPECT_EQ(a->hear(), "cannot");
  ASSERT_NO_FATAL_FAILURE(expect_built(*b, "2"));
}

TEST_F(SharedBlobProcessTest, ABuilderDoesNotKeepOthersFromTheBroker) {
  const auto a = sharer("a", 1);
  a->say("ask");
  ASSERT_EQ(a->hear(), "filling");
  const auto self = client("self");
  auto waiting = std::async(std::launch::async, [&] { return value_for(*self); });
  EXPECT_EQ(client("b")->ring("none").error().code, ErrorCode::kPermission);
  // Neither other peers nor other calls of the one that waits.
  EXPECT_EQ(self->ring("none").error().code, ErrorCode::kPermission);
  a->say("fill");
  EXPECT_EQ(waiting.get(), 1);
}

TEST_F(SharedBlobProcessTest, WaitersHearThatTheBrokerIsGone) {
  const auto a = sharer("a", 1);
  const auto b = sharer("b", 2);
  ASSERT_NO_FATAL_FAILURE(wait_behind(*a, *b));
  broker_.reset();
  EXPECT_EQ(b->hear(), "the other side has hung up");
}

TEST_F(SharedBlobProcessTest, OnlyWhoMayShareDoes) {
  const auto stranger = client("stranger");
  const auto refused = stranger->shared_blob(kKey, kBytes, [](std::span<std::byte>) -> Status {
    ADD_FAILURE() << "not its turn";
    return {};
  });
  EXPECT_EQ(refused.error().code, ErrorCode::kPermission);
  EXPECT_EQ(value_for(*client("self")), 9);
}

BrokerRequestData blob_request(BrokerRequest kind) {
  BrokerRequestData request = broker_request(kind, kKey);
  request.blob_bytes = kBytes;
  return request;
}

// Neither what others could change nor what is smaller than it says gets through.
TEST_F(SharedBlobProcessTest, UnsoundBlobsReachNobody) {
  for (const bool sealed : {false, true}) {
    const FdChannel a = join_by_hand(broker_->address(), kSecret, "a").value();
    ASSERT_TRUE(send_request(a, blob_request(BrokerRequest::kFindBlob)));
    ASSERT_EQ(receive_reply(a)->blob, static_cast<uint32_t>(BlobState::kBuild));
    const UniqueFd fd = create_memfd("bad", sealed ? kBytes / 2 : kBytes).value();
    if (sealed) {
      ASSERT_TRUE(seal_memfd(fd.get(), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
    }
    const int raw = fd.get();
    ASSERT_TRUE(send_request(a, blob_request(BrokerRequest::kPublishBlob), {&raw, 1}));
    EXPECT_EQ(receive_reply(a)->failed, 1u);
    EXPECT_EQ(value_for(*client("self")), 9);
  }
}

class ShortBlobBoundTest : public SharedBlobProcessTest {
 protected:
  ShortBlobBoundTest() : SharedBlobProcessTest(seconds(1)) {}
};

// It is alive and busy, but it does not finish.
TEST_F(ShortBlobBoundTest, ABuilderThatNeverFinishesLosesItsTurn) {
  const auto a = sharer("a", 1);
  a->say("ask");
  ASSERT_EQ(a->hear(), "filling");
  EXPECT_EQ(value_for(*client("self")), 9);
  a->say("fill");
  EXPECT_NE(a->hear(), "1");
}

}  // namespace
}  // namespace suture
