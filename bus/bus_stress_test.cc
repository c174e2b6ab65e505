// Many threads on one bus, for the thread sanitizer as much as for the assertions. What processes
// share is mapped at one address here, so that the sanitizer sees what it judges: rows, leases and
// counts of the owner's own mapping.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bus/broker.h"
#include "bus/broker_client.h"
#include "bus/lease.h"
#include "bus/slab.h"
#include "bus/stream_reader.h"
#include "bus/test_streams.h"
#include "bus/token_ring.h"

namespace suture {
namespace {

using std::chrono::seconds;

constexpr int64_t kTokens = 64;

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int64_t operator()(int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }

 private:
  std::mt19937 random_;
};

void append(StreamWriter& writer, uint32_t salt, int64_t end) {
  for (int32_t layer = 0; layer < writer.n_layers(); ++layer) {
    for (int64_t token = writer.committed(layer); token < end; ++token)
      write_row(writer.shape(), writer.layer_view(layer), salt, layer, token);
    writer.commit(layer, end);
  }
}

bool is_one_of(ErrorCode code, std::initializer_list<ErrorCode> expected) {
  return std::ranges::find(expected, code) != expected.end();
}

// --- Writers, forks, closers and leases of one slab

class SlabStressTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSequences = 2;
  static constexpr uint32_t kSlots = 8;
  static constexpr int kReaders = 3;
  static constexpr int64_t kReads = 300;  // of each reader, after which the owners end

  SlabStressTest() {
    slab_ = Slab::create({small_shape(), kTokens, kSequences, PeerId{1}}).value();
    const auto probe = slab_->open_stream(small_info(), 1).value();
    for (int32_t layer = 0; layer < small_shape().n_layers; ++layer)
      layers_.push_back(probe->layer_view(layer).base);
  }

  // Opens or forks, appends, and closes now and then; a fork's rows follow its parent's salt. The
  // salt reaches the readers as the stream's request.
  void own(uint32_t seed) {
    struct Own {
      std::unique_ptr<StreamWriter> writer;
      uint32_t salt = 0;
    };
    Draw draw(seed);
    std::vector<Own> open;
    const auto any = [&]() -> Own& { return open[static_cast<size_t>(draw(std::ssize(open)))]; };
    for (uint32_t stream = 1; reading_ > 0; ++stream) {
      const bool fork = !open.empty() && draw(3) == 0;
      const Own* parent = fork ? &any() : nullptr;
      const uint32_t salt = fork ? parent->salt : seed + stream;
      auto writer = fork ? slab_->fork_stream(*parent->writer, parent->writer->committed(2),
                                              small_info(), kTokens)
                         : slab_->open_stream(small_info(), 1 + draw(kTokens));
      if (writer) {
        (*writer)->set_request(salt);
        // relaxed: the bus, not this test, must order what readers see.
        generations_.at((*writer)->id().slot)
            .store((*writer)->id().generation, std::memory_order_relaxed);
        open.push_back({std::move(*writer), salt});
      } else {
        ASSERT_TRUE(is_one_of(writer.error().code, {ErrorCode::kOutOfMemory, ErrorCode::kBusy}));
      }
      for (int i = 0; i < 2 && !open.empty(); ++i) {
        Own& own = any();
        append(*own.writer, own.salt,
               std::min(own.writer->capacity(), own.writer->committed(0) + 1 + draw(30)));
      }
      if (!writer || open.size() == 3) {
        if (open.empty()) std::this_thread::yield();
        if (!open.empty()) open.erase(open.begin() + draw(std::ssize(open)));
      }
    }
  }

  void read(uint32_t seed) {
    Draw draw(seed);
    // As a reader's, but of the owner's own mapping.
    const std::shared_ptr<const Control> control(slab_, &slab_->control());
    for (int64_t read = 0; read < kReads;) {
      const auto slot = static_cast<uint32_t>(draw(kSlots));
      const StreamId id{slot, generations_.at(slot).load(std::memory_order_relaxed)};
      const auto lease = Lease::take(control, id, PeerId{2 + seed});
      if (lease) {
        read += read_leased(*control, slot) > 0 ? 1 : 0;
      } else {
        ASSERT_TRUE(
            is_one_of(lease.error().code, {ErrorCode::kStaleGeneration, ErrorCode::kClosed}));
        std::this_thread::yield();
      }
    }
    --reading_;
  }

  // How many rows there were.
  int64_t read_leased(const Control& control, uint32_t slot) {
    std::vector<uint32_t> blocks(control.stream(slot).n_blocks.load(std::memory_order_relaxed));
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = control.block_table(slot)[i].load(std::memory_order_relaxed);
    const auto salt =
        static_cast<uint32_t>(control.stream(slot).request.load(std::memory_order_relaxed));
    if (salt == 0) return 0;  // has only just been opened
    int64_t rows = 0;
    for (int32_t layer = 0; layer < small_shape().n_layers; ++layer) {
      const auto end = static_cast<int64_t>(
          control.committed(slot)[static_cast<size_t>(layer)].load(std::memory_order_acquire));
      const KvLayerView view{layers_[static_cast<size_t>(layer)], blocks.data()};
      wrong_ += wrong_elements(small_shape(), view, salt, layer, 0, end);
      rows += end;
    }
    return rows;
  }

  std::shared_ptr<Slab> slab_;
  std::vector<std::byte*> layers_;  // arenas, as the owner has them mapped
  std::array<std::atomic<uint64_t>, kSlots> generations_{};
  std::atomic<int> reading_{kReaders};
  std::atomic<int64_t> wrong_{0};
};

TEST_F(SlabStressTest, NoRowIsReadBeforeItIsWrittenOrAfterItIsReused) {
  std::vector<std::thread> readers;
  for (uint32_t seed = 1; seed <= kReaders; ++seed)
    readers.emplace_back([this, seed] { read(seed); });
  std::thread first([this] { own(1u << 28); });
  std::thread second([this] { own(2u << 28); });
  for (std::thread& reader : readers) reader.join();
  first.join();
  second.join();
  EXPECT_EQ(wrong_, 0);
  slab_->reclaim();
  EXPECT_EQ(slab_->deferred_streams(), 0u);
  EXPECT_EQ(slab_->free_blocks(), slab_->n_blocks());
}

// --- Peers that join, read, and leave

class BrokerStressTest : public ::testing::Test {
 protected:
  BrokerStressTest() {
    BrokerOptions options;
    options.secret = "stress";
    options.look_interval = std::chrono::milliseconds(1);
    options.on_peer_joined = [this](PeerId, const std::string&, pid_t) { ++joined_; };
    options.on_peer_end = [this](PeerId, const std::string&, PeerEnd, const std::string&) {
      ++ended_;
      ended_.notify_all();
    };
    broker_ = Broker::start(std::move(options)).value();
  }
  ~BrokerStressTest() override { broker_.reset(); }  // its callbacks use what is declared after it

  // The last holder of a name may still be on its way out.
  std::unique_ptr<BrokerClient> join(const std::string& name) {
    while (true) {
      auto client = BrokerClient::connect(broker_->address(), "stress", name);
      if (client) return std::move(*client);
      EXPECT_EQ(client.error().code, ErrorCode::kBusy) << client.error().message();
      std::this_thread::yield();
    }
  }

  // One incarnation of the owner: some streams, then it leaves.
  void own_for_a_while(Draw& draw) {
    const auto client = join("owner");
    const auto slab = Slab::create({small_shape(), kTokens, 2, client->self()}).value();
    ASSERT_TRUE(client->publish_slab(slab->payload_fd(), slab->control_fd()));
    for (int stream = 0; stream < 40; ++stream) {
      auto writer = slab->open_stream(small_info(), 1 + draw(kTokens));
      if (!writer) continue;
      slot_ = (*writer)->id().slot;
      generation_ = (*writer)->id().generation;
      const auto salt = static_cast<uint32_t>((*writer)->id().generation);
      for (int64_t end = 0; end < (*writer)->capacity(); end = (*writer)->committed(0))
        append(**writer, salt, std::min((*writer)->capacity(), end + 1 + draw(16)));
    }
  }

  // Joins, reads one stream to its end, and leaves. False if it has found none.
  bool read_once(const std::string& name) {
    const auto client = join(name);
    const auto ring = TokenRing::create(4).value();
    EXPECT_TRUE(client->publish_ring(name, ring->fd()));
    EXPECT_TRUE(client->ring(name));
    const auto view = client->slab("owner");
    if (!view) return false;
    auto reader = (*view)->attach({slot_, generation_});
    if (!reader) {
      EXPECT_TRUE(is_one_of(reader.error().code,
                            {ErrorCode::kStaleGeneration, ErrorCode::kClosed, ErrorCode::kLost}));
      return false;
    }
    const Status all = reader->wait_all(reader->capacity(), deadline_in(seconds(60)));
    if (!all) {
      EXPECT_TRUE(is_one_of(all.error().code, {ErrorCode::kClosed, ErrorCode::kLost}));
    }
    const auto salt = static_cast<uint32_t>(reader->id().generation);
    const int64_t rows = reader->committed(2);
    wrong_ += wrong_elements(reader->shape(), reader->layer_view(2), salt, 2, 0, rows);
    return rows > 0;
  }

  std::unique_ptr<Broker> broker_;
  std::atomic<uint32_t> slot_{0};
  std::atomic<uint64_t> generation_{0};
  std::atomic<int64_t> wrong_{0};
  std::atomic<int> joined_{0};
  std::atomic<int> ended_{0};
};

TEST_F(BrokerStressTest, PeersComeAndGo) {
  constexpr int kReaders = 3;
  constexpr int kReads = 10;  // of each, and as many times it joins and leaves
  std::atomic<int> reading{kReaders};
  std::thread owner([&] {
    Draw draw(7);
    while (reading > 0) own_for_a_while(draw);
  });
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&, name = "reader-" + std::to_string(i)] {
      for (int read = 0; read < kReads;) read += read_once(name) ? 1 : 0;
      --reading;
    });
  }
  for (std::thread& reader : readers) reader.join();
  owner.join();
  EXPECT_EQ(wrong_, 0);
  EXPECT_GT(joined_, kReaders * kReads);
  for (int ended = ended_; ended < joined_; ended = ended_) ended_.wait(ended);
}

// --- Token rings

int32_t token_id(uint64_t index) { return static_cast<int32_t>(index * 2654435761u >> 3); }

// The one that grants credit sees every token; the other one is left behind at times, and told.
TEST(TokenRingStressTest, EveryTokenOrAnError) {
  constexpr uint64_t kCount = 20'000;
  const auto ring = TokenRing::create(16).value();
  std::thread granting([&] {
    TokenRingReader reader(ring);
    ring->grant(16);
    while (const auto token = reader.wait_next(deadline_in(seconds(60))).value()) {
      ASSERT_EQ(token->id, token_id(token->index));
      ring->grant(reader.cursor() + 16);
    }
    EXPECT_EQ(reader.cursor(), kCount);
  });
  std::thread trailing([&] {
    TokenRingReader reader(ring);
    while (true) {
      const auto token = reader.wait_next(deadline_in(seconds(60)));
      if (!token) {
        ASSERT_EQ(token.error().code, ErrorCode::kStaleGeneration) << token.error().message();
        reader = TokenRingReader(ring, ring->produced());
        continue;
      }
      if (!*token) return;
      ASSERT_EQ((*token)->id, token_id((*token)->index));
    }
  });
  auto writer = TokenRingWriter::open(ring).value();
  while (writer.produced() < kCount) {
    ASSERT_TRUE(writer.wait_credit(deadline_in(seconds(60))));
    ASSERT_TRUE(writer.push(token_id(writer.produced())));
  }
  writer.finish(1);
  granting.join();
  trailing.join();
}

TEST(TokenRingStressTest, ProducersThatAreLostOrCancelledEndEveryWait) {
  for (uint64_t round = 0; round < 300; ++round) {
    const auto ring = TokenRing::create(8).value();
    const uint64_t pushed = round % 8;
    const bool cancelled = round % 2 == 0;
    std::thread consumer([&] {
      TokenRingReader reader(ring);
      ring->grant(pushed);
      auto token = reader.wait_next(deadline_in(seconds(60)));
      for (; token && *token; token = reader.wait_next(deadline_in(seconds(60)))) {
        if (cancelled && reader.cursor() == pushed) ring->cancel();
      }
      EXPECT_EQ(reader.cursor(), pushed);
      EXPECT_EQ(token.error().code, ErrorCode::kLost);
    });
    std::thread producer([&] {
      auto writer = TokenRingWriter::open(ring).value();
      while (writer.produced() < pushed) {
        ASSERT_TRUE(writer.wait_credit(deadline_in(seconds(60))));
        ASSERT_TRUE(writer.push(token_id(writer.produced())));
      }
      if (cancelled && pushed > 0) {
        EXPECT_EQ(writer.wait_credit(deadline_in(seconds(60))).error().code, ErrorCode::kCancelled);
      }
    });
    producer.join();
    ring->mark_producer_lost();
    consumer.join();
  }
}

}  // namespace
}  // namespace suture
