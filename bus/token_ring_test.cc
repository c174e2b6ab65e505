#include "bus/token_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "bus/memfd.h"
#include "bus/test_child.h"

namespace suture {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Deadline soon() { return deadline_in(milliseconds(5)); }
Deadline late() { return deadline_in(seconds(60)); }

// What producer and consumers agree on, so that each can check the other.
int32_t token_at(uint64_t index) { return static_cast<int32_t>(index * 2654435761u % 151936u); }

TEST(TokenRingTest, TokensComeInOrderWithTheirFlags) {
  const auto ring = TokenRing::create(4).value();
  auto writer = TokenRingWriter::open(ring).value();
  ring->grant(4);
  TokenRingReader reader(TokenRing::attach(ring->fd()).value());
  ASSERT_TRUE(writer.push(151643, 0));
  ASSERT_TRUE(writer.push(-1, 255));
  EXPECT_EQ(*reader.wait_next(late()).value(), (RingToken{0, 151643, 0}));
  EXPECT_EQ(*reader.wait_next(late()).value(), (RingToken{1, -1, 255}));
  EXPECT_EQ(reader.try_next().error().code, ErrorCode::kTimeout);
  EXPECT_EQ(reader.cursor(), 2u);
}

TEST(TokenRingTest, TheEndComesAfterAllTokens) {
  const auto ring = TokenRing::create(4).value();
  auto writer = TokenRingWriter::open(ring).value();
  ring->grant(1);
  ASSERT_TRUE(writer.push(5));
  writer.finish(3);
  TokenRingReader reader(ring);
  EXPECT_EQ(reader.wait_next(late()).value()->id, 5);
  EXPECT_EQ(reader.wait_next(late()).value(), std::nullopt);
  EXPECT_EQ(reader.finish_reason(), 3u);
  EXPECT_EQ(TokenRingWriter::open(ring).error().code, ErrorCode::kClosed);
}

TEST(TokenRingTest, ProducerStopsWhereTheCreditEnds) {
  const auto ring = TokenRing::create(8).value();
  auto writer = TokenRingWriter::open(ring).value();
  EXPECT_EQ(writer.push(1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(writer.wait_credit(soon()).error().code, ErrorCode::kTimeout);
  ring->grant(1);
  ring->grant(0);  // takes nothing back
  EXPECT_TRUE(writer.wait_credit(late()));
  EXPECT_TRUE(writer.push(1));
  EXPECT_EQ(writer.wait_credit(soon()).error().code, ErrorCode::kTimeout);
}

TEST(TokenRingTest, CancellingWakesTheProducer) {
  const auto ring = TokenRing::create(8).value();
  auto writer = TokenRingWriter::open(ring).value();
  std::thread producer(
      [&] { EXPECT_EQ(writer.wait_credit(late()).error().code, ErrorCode::kCancelled); });
  ring->cancel();
  producer.join();
}

TEST(TokenRingTest, CreditOutOfRangeIsNotBelieved) {
  const auto ring = TokenRing::create(8).value();
  auto writer = TokenRingWriter::open(ring).value();
  ring->grant(9);
  EXPECT_EQ(writer.wait_credit(late()).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(writer.push(1).error().code, ErrorCode::kCorrupt);
}

TEST(TokenRingTest, ALostProducerEndsTheWaitAfterItsTokens) {
  const auto ring = TokenRing::create(8).value();
  auto writer = TokenRingWriter::open(ring).value();
  ring->grant(8);
  ASSERT_TRUE(writer.push(7));
  TokenRingReader reader(ring);
  std::thread consumer([&] {
    EXPECT_EQ(reader.wait_next(late()).value()->id, 7);
    EXPECT_EQ(reader.wait_next(late()).error().code, ErrorCode::kLost);
  });
  ring->mark_producer_lost();
  consumer.join();
  EXPECT_EQ(TokenRingWriter::open(ring).error().code, ErrorCode::kLost);
}

TEST(TokenRingTest, AFinishedRingIsNotLost) {
  const auto ring = TokenRing::create(1).value();
  TokenRingWriter::open(ring).value().finish(2);
  ring->mark_producer_lost();
  TokenRingReader reader(ring);
  EXPECT_EQ(reader.wait_next(late()).value(), std::nullopt);
}

TEST(TokenRingTest, OverwrittenTokensAreAnErrorNotOtherTokens) {
  const auto ring = TokenRing::create(4).value();
  auto writer = TokenRingWriter::open(ring).value();
  TokenRingReader slow(ring);
  TokenRingReader quick(ring);
  for (uint64_t i = 0; i < 5; ++i) {
    ring->grant(i + 1);
    ASSERT_TRUE(writer.push(token_at(i)));
    EXPECT_EQ(quick.wait_next(late()).value()->id, token_at(i));
  }
  EXPECT_EQ(slow.wait_next(late()).error().code, ErrorCode::kStaleGeneration);
  TokenRingReader from_second(ring, 1);
  EXPECT_EQ(from_second.wait_next(late()).value()->id, token_at(1));
}

TEST(TokenRingTest, ANewProducerContinuesTheCount) {
  const auto ring = TokenRing::create(4).value();
  ring->grant(4);
  ASSERT_TRUE(TokenRingWriter::open(ring).value().push(1));
  auto second = TokenRingWriter::open(ring).value();
  EXPECT_EQ(second.produced(), 1u);
  ASSERT_TRUE(second.push(2));
  TokenRingReader reader(ring, 1);
  EXPECT_EQ(reader.wait_next(late()).value()->id, 2);
}

// As a producer that is killed between a token, or the end, and the bell leaves it.
TEST(TokenRingTest, OpeningRingsForAPredecessorThatCouldNot) {
  const auto ring = TokenRing::create(4).value();
  const auto mapping =
      Mapping::shared(ring->fd(), memfd_size(ring->fd()).value(), Mapping::Access::kReadWrite)
          .value();
  auto& header = *reinterpret_cast<TokenRingHeaderData*>(mapping.data());
  header.produced.store(1);
  EXPECT_EQ(TokenRingWriter::open(ring).value().produced(), 1u);
  EXPECT_EQ(header.token_bell.bell.load(), 1u);
  header.state.store(static_cast<uint32_t>(RingState::kFinished));
  EXPECT_EQ(TokenRingWriter::open(ring).error().code, ErrorCode::kClosed);
  EXPECT_EQ(header.token_bell.bell.load(), 2u);
}

TEST(TokenRingTest, RefusesImpossibleCapacities) {
  EXPECT_FALSE(TokenRing::create(0));
  EXPECT_FALSE(TokenRing::create(kMaxRingCapacity + 1));
}

TEST(TokenRingTest, AttachRefusesWhatIsNoRing) {
  const auto forged = [](auto change) {
    TokenRingHeaderData header{};
    header.magic = kTokenRingMagic;
    header.layout_version = kBusLayoutVersion;
    header.capacity = 2;
    uint64_t bytes = sizeof(header) + 2 * sizeof(uint64_t);
    change(header, bytes);
    const UniqueFd fd = create_memfd("test", bytes).value();
    {
      const auto mapping = Mapping::shared(fd.get(), bytes, Mapping::Access::kReadWrite).value();
      std::memcpy(mapping.data(), static_cast<const void*>(&header), std::min<uint64_t>(bytes, 16));
    }
    EXPECT_TRUE(seal_memfd(fd.get(), F_SEAL_SHRINK | F_SEAL_GROW));
    const auto ring = TokenRing::attach(fd.get());
    return ring ? std::optional<ErrorCode>() : ring.error().code;
  };
  using Header = TokenRingHeaderData;
  EXPECT_EQ(forged([](Header&, uint64_t&) {}), std::nullopt);
  EXPECT_EQ(forged([](Header& h, uint64_t&) { h.magic ^= 1; }), ErrorCode::kCorrupt);
  EXPECT_EQ(forged([](Header& h, uint64_t&) { ++h.layout_version; }), ErrorCode::kIncompatible);
  EXPECT_EQ(forged([](Header& h, uint64_t&) { h.capacity = 3; }), ErrorCode::kCorrupt);
  EXPECT_EQ(forged([](Header& h, uint64_t&) { h.capacity = ~0u; }), ErrorCode::kCorrupt);
  EXPECT_EQ(forged([](Header&, uint64_t& bytes) { bytes = 16; }), ErrorCode::kCorrupt);
}

SUTURE_TEST_CHILD(ring_consumer) {
  const std::vector<UniqueFd> fds = parent.hear_fds();
  const auto ring = TokenRing::attach(fds.at(0).get()).value();
  const bool grants = std::string_view(args[0]) == "grants";
  TokenRingReader reader(ring);
  uint64_t wrong = 0;
  parent.say("ready");
  while (true) {
    if (grants) ring->grant(reader.cursor() + 8);
    const auto token = reader.wait_next(late());
    if (!token) {
      parent.say(std::string(error_code_name(token.error().code)));
      return 1;
    }
    if (!*token) break;
    wrong += (*token)->id != token_at((*token)->index) ? 1 : 0;
  }
  parent.say(std::to_string(reader.cursor()) + " tokens, " + std::to_string(wrong) +
             " wrong, reason " + std::to_string(reader.finish_reason()));
  return 0;
}

TEST(TokenRingTest, ProcessesFollowOneProducer) {
  constexpr uint64_t kTokens = 20000;
  const auto ring = TokenRing::create(kTokens).value();
  auto writer = TokenRingWriter::open(ring).value();
  ChildProcess coordinator("ring_consumer", {"grants"});
  ChildProcess slave("ring_consumer", {"follows"});
  const int fd = ring->fd();
  for (const ChildProcess* child : {&coordinator, &slave}) {
    child->say("ring", {&fd, 1});
    ASSERT_EQ(child->hear(), "ready");
  }
  for (uint64_t i = 0; i < kTokens; ++i) {
    ASSERT_TRUE(writer.wait_credit(late()));
    ASSERT_TRUE(writer.push(token_at(i)));
  }
  writer.finish(4);
  EXPECT_EQ(coordinator.hear(), "20000 tokens, 0 wrong, reason 4");
  EXPECT_EQ(slave.hear(), "20000 tokens, 0 wrong, reason 4");
}

SUTURE_TEST_CHILD(ring_producer) {
  const std::vector<UniqueFd> fds = parent.hear_fds();
  auto writer = TokenRingWriter::open(TokenRing::attach(fds.at(0).get()).value()).value();
  for (uint64_t i = 0; writer.wait_credit(late()); ++i)
    if (!writer.push(token_at(i))) return 1;
  return 0;
}

TEST(TokenRingTest, AKilledProducerIsReportedAfterItsLastToken) {
  const auto ring = TokenRing::create(100).value();
  ring->grant(10);
  ChildProcess producer("ring_producer");
  const int fd = ring->fd();
  producer.say("ring", {&fd, 1});
  TokenRingReader reader(ring);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(reader.wait_next(late()).value()->id, token_at(i));
  producer.signal(SIGKILL);
  EXPECT_EQ(producer.wait(), -SIGKILL);
  ring->mark_producer_lost();
  EXPECT_EQ(reader.wait_next(late()).error().code, ErrorCode::kLost);
}

}  // namespace
}  // namespace suture
