// Streams between real processes: one owner, several readers, and what happens when one of them is
// killed. The test plays the broker's part: it hands over descriptors, and it says who died.
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bus/slab.h"
#include "bus/stream_reader.h"
#include "bus/test_child.h"
#include "bus/test_streams.h"

namespace suture {
namespace {

using std::chrono::seconds;

Deadline late() { return deadline_in(seconds(120)); }

std::shared_ptr<Slab> small_slab(int32_t max_sequences) {
  SlabOptions options;
  options.shape = small_shape();
  options.max_seq_len = 1024;
  options.max_sequences = max_sequences;
  options.owner = PeerId{1};
  return Slab::create(options).value();
}

void append(StreamWriter& writer, uint32_t salt, int64_t tokens) {
  for (int32_t layer = 0; layer < writer.n_layers(); ++layer) {
    for (int64_t token = writer.committed(layer); token < tokens; ++token)
      write_row(writer.shape(), writer.layer_view(layer), salt, layer, token);
    writer.commit(layer, tokens);
  }
}

int64_t wrong_in_all_layers(const StreamReader& reader, uint32_t salt, int64_t end) {
  int64_t wrong = 0;
  for (int32_t layer = 0; layer < reader.n_layers(); ++layer)
    wrong += wrong_elements(reader.shape(), reader.layer_view(layer), salt, layer, 0, end);
  return wrong;
}

std::string name_of(const Status& status) {
  return status ? "ok" : std::string(error_code_name(status.error().code));
}

// "slot generation"
std::string to_text(StreamId id) {
  return std::to_string(id.slot) + " " + std::to_string(id.generation);
}

StreamId to_stream(const std::string& text) {
  size_t end = 0;
  StreamId id;
  id.slot = static_cast<uint32_t>(std::stoul(text, &end));
  id.generation = std::stoull(text.substr(end));
  return id;
}

void send_slab(const ChildProcess& child, const Slab& slab) {
  const std::array<int, 2> fds{slab.payload_fd(), slab.control_fd()};
  child.say("slab", fds);
}

std::shared_ptr<SlabView> receive_slab(const ChildLink& parent, PeerId self) {
  const std::vector<UniqueFd> fds = parent.hear_fds();
  return SlabView::map(fds.at(0).get(), fds.at(1).get(), self).value();
}

// Does what it is told with one stream: "attach SLOT GENERATION", "step", "wait TOKENS",
// "check SALT TOKENS", "release". Answers with the result's name, or the count of wrong elements.
SUTURE_TEST_CHILD(told_reader) {
  const auto view = receive_slab(parent, PeerId{std::stoull(args[0])});
  std::optional<StreamReader> reader;
  for (std::string order = parent.hear(); !order.empty(); order = parent.hear()) {
    const std::string verb = order.substr(0, order.find(' '));
    const std::string rest = verb == order ? "" : order.substr(verb.size() + 1);
    if (verb == "attach") {
      auto attached = view->attach(to_stream(rest));
      parent.say(attached ? "ok" : std::string(error_code_name(attached.error().code)));
      if (attached) reader.emplace(std::move(*attached));
    } else if (verb == "step") {
      parent.say(name_of(reader->begin_step()));
    } else if (verb == "wait") {
      parent.say(name_of(reader->wait_all(std::stoll(rest), late())));
    } else if (verb == "check") {
      const StreamId numbers = to_stream(rest);
      const auto tokens = static_cast<int64_t>(numbers.generation);
      parent.say(std::to_string(wrong_in_all_layers(*reader, numbers.slot, tokens)));
    } else {
      reader.reset();
      parent.say("ok");
    }
  }
  return 0;
}

class ToldReader : public ChildProcess {
 public:
  ToldReader(uint64_t peer, const Slab& slab)
      : ChildProcess("told_reader", {std::to_string(peer)}) {
    send_slab(*this, slab);
  }
  std::string ask(const std::string& order) const {
    say(order);
    return hear();
  }
};

// Reads each layer of each token as soon as it is there, and checks every element.
SUTURE_TEST_CHILD(following_reader) {
  const auto view = receive_slab(parent, PeerId{std::stoull(args[0])});
  int64_t wrong = 0;
  int64_t rows = 0;
  for (std::string order = parent.hear(); order != "end"; order = parent.hear()) {
    StreamReader reader = view->attach(to_stream(order)).value();
    parent.say("ready");
    const auto salt = static_cast<uint32_t>(reader.id().generation);
    for (int64_t token = 0; token < 1024; ++token) {
      for (int32_t layer = 0; layer < reader.n_layers(); ++layer) {
        const Status status = reader.wait(layer, token + 1, late());
        if (!status) return 1;
        wrong +=
            wrong_elements(reader.shape(), reader.layer_view(layer), salt, layer, token, token + 1);
        ++rows;
      }
    }
  }
  parent.say(std::to_string(rows) + " rows, " + std::to_string(wrong) + " wrong elements");
  return 0;
}

TEST(StreamProcessTest, ReadersFollowUnderLoad) {
  constexpr int kReaders = 4;
  constexpr int kStreams = 5;
  const auto slab = small_slab(2);
  std::vector<std::unique_ptr<ChildProcess>> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<ChildProcess>(
        "following_reader", std::vector<std::string>{std::to_string(i + 2)}));
    send_slab(*readers.back(), *slab);
  }
  std::unique_ptr<StreamWriter> previous;  // closed while readers are still behind
  for (int stream = 0; stream < kStreams; ++stream) {
    // Two streams fit: the one before the last must have been released by its readers, all of
    // which have attached to the last one since.
    previous = slab->open_stream(small_info(), 1024).value();
    for (const auto& reader : readers) reader->say(to_text(previous->id()));
    for (const auto& reader : readers) ASSERT_EQ(reader->hear(), "ready");
    for (int64_t tokens = 1; tokens <= 1024; ++tokens)
      append(*previous, static_cast<uint32_t>(previous->id().generation), tokens);
  }
  for (const auto& reader : readers) {
    reader->say("end");
    EXPECT_EQ(reader->hear(), "15360 rows, 0 wrong elements");
    EXPECT_EQ(reader->wait(), 0);
  }
  previous.reset();
  slab->reclaim();
  EXPECT_EQ(slab->deferred_streams(), 0u);
  EXPECT_EQ(slab->free_blocks(), 64u);
}

TEST(StreamProcessTest, StaleGenerationAtAttachAndAtStepStart) {
  const auto slab = small_slab(1);
  auto writer = slab->open_stream(small_info(), 1024).value();
  const StreamId old = writer->id();
  const ToldReader reader(2, *slab);
  ASSERT_EQ(reader.ask("attach " + to_text(old)), "ok");
  EXPECT_EQ(reader.ask("step"), "ok");

  const ToldReader late_reader(3, *slab);
  // The reader is held dead, so that its lease does not keep the slot.
  EXPECT_EQ(slab->control().drop_leases_of(PeerId{2}), 1u);
  writer.reset();
  EXPECT_EQ(late_reader.ask("attach " + to_text(old)), "closed");
  writer = slab->open_stream(small_info(), 1024).value();
  ASSERT_EQ(writer->id().slot, old.slot);
  EXPECT_EQ(late_reader.ask("attach " + to_text(old)), "stale_generation");
  EXPECT_EQ(late_reader.ask("attach " + to_text(writer->id())), "ok");
  EXPECT_EQ(reader.ask("step"), "stale_generation");
  EXPECT_EQ(reader.ask("wait 1"), "stale_generation");
}

TEST(StreamProcessTest, AStreamClosedUnderALeaseKeepsItsBlocks) {
  const auto slab = small_slab(1);
  auto writer = slab->open_stream(small_info(), 512).value();
  append(*writer, 11, 512);
  const ToldReader reader(2, *slab);
  ASSERT_EQ(reader.ask("attach " + to_text(writer->id())), "ok");
  writer.reset();
  EXPECT_EQ(reader.ask("step"), "closed");

  // All other blocks go to another stream, again and again; never those under the lease.
  for (int round = 0; round < 3; ++round) {
    const auto other = slab->open_stream(small_info(), 512).value();
    append(*other, 12, 512);
    EXPECT_EQ(slab->open_stream(small_info(), 1).error().code, ErrorCode::kOutOfMemory);
    EXPECT_EQ(reader.ask("check 11 512"), "0");
  }
  EXPECT_EQ(reader.ask("release"), "ok");
  EXPECT_EQ(slab->reclaim(), 1u);
  EXPECT_EQ(slab->free_blocks(), 32u);
}

TEST(StreamProcessTest, AKilledReadersLeasesAreDropped) {
  const auto slab = small_slab(1);
  auto first = slab->open_stream(small_info(), 512).value();
  auto second = slab->open_stream(small_info(), 512).value();
  ToldReader killed(2, *slab);
  const ToldReader alive(3, *slab);
  ASSERT_EQ(killed.ask("attach " + to_text(first->id())), "ok");
  ASSERT_EQ(alive.ask("attach " + to_text(second->id())), "ok");
  killed.signal(SIGKILL);
  ASSERT_EQ(killed.wait(), -SIGKILL);
  first.reset();
  second.reset();
  EXPECT_EQ(slab->reclaim(), 0u);
  EXPECT_EQ(slab->free_blocks(), 0u);

  EXPECT_EQ(slab->control().drop_leases_of(PeerId{2}), 1u);
  EXPECT_EQ(slab->reclaim(), 1u);
  EXPECT_EQ(slab->free_blocks(), 16u);
  EXPECT_EQ(slab->deferred_streams(), 1u);
}

// A reader killed while it sleeps leaves the count of waiters too high; others still wake.
TEST(StreamProcessTest, AReaderKilledInAWaitDisturbsNobody) {
  const auto slab = small_slab(1);
  const auto writer = slab->open_stream(small_info(), 1024).value();
  const DoorbellData& doorbell = slab->control().stream(writer->id().slot).doorbell;
  ToldReader killed(2, *slab);
  const ToldReader alive(3, *slab);
  ASSERT_EQ(killed.ask("attach " + to_text(writer->id())), "ok");
  ASSERT_EQ(alive.ask("attach " + to_text(writer->id())), "ok");
  killed.say("wait 5");
  alive.say("wait 5");
  while (doorbell.waiters.load() < 2) std::this_thread::yield();
  killed.signal(SIGKILL);
  ASSERT_EQ(killed.wait(), -SIGKILL);
  append(*writer, 1, 5);
  EXPECT_EQ(alive.hear(), "ok");
  EXPECT_EQ(doorbell.waiters.load(), 1u);
}

// Owns a slab, publishes 100 tokens of one stream and stays in the middle of the next one.
SUTURE_TEST_CHILD(doomed_owner) {
  const auto slab = small_slab(1);
  const auto writer = slab->open_stream(small_info(), 1024).value();
  append(*writer, 21, 100);
  writer->commit(0, 101);
  const std::array<int, 2> fds{slab->payload_fd(), slab->control_fd()};
  parent.say("slab", fds);
  parent.say(to_text(writer->id()));
  return parent.hear().empty() ? 0 : 1;
}

TEST(StreamProcessTest, AnOwnerKilledInTheMiddleOfARead) {
  ChildProcess owner("doomed_owner");
  const std::vector<UniqueFd> received = owner.hear_fds();
  const int payload = received.at(0).get();
  const int control = received.at(1).get();
  const std::string id = owner.hear();
  const Control as_broker = Control::attach(control).value();
  const auto view = SlabView::map(payload, control, PeerId{2}).value();
  StreamReader reader = view->attach(to_stream(id)).value();
  ASSERT_TRUE(reader.begin_step());
  ASSERT_TRUE(reader.wait_all(100, late()));
  EXPECT_EQ(wrong_elements(reader.shape(), reader.layer_view(0), 21, 0, 0, 50), 0);

  const std::array<int, 2> fds{payload, control};
  ChildProcess sleeper("told_reader", {"3"});
  sleeper.say("slab", fds);
  sleeper.say("attach " + id);
  ASSERT_EQ(sleeper.hear(), "ok");
  sleeper.say("wait 101");
  while (as_broker.stream(to_stream(id).slot).doorbell.waiters.load() == 0)
    std::this_thread::yield();

  owner.signal(SIGKILL);
  ASSERT_EQ(owner.wait(), -SIGKILL);
  as_broker.mark_owner_lost();

  EXPECT_EQ(sleeper.hear(), "lost");
  // The step that has begun is finished from the mapping; the next one is refused.
  EXPECT_EQ(wrong_in_all_layers(reader, 21, 100), 0);
  EXPECT_TRUE(reader.wait_all(100, late()));
  EXPECT_EQ(reader.wait_all(101, late()).error().code, ErrorCode::kLost);
  EXPECT_EQ(reader.begin_step().error().code, ErrorCode::kLost);
  EXPECT_EQ(view->attach(to_stream(id)).error().code, ErrorCode::kLost);
}

}  // namespace
}  // namespace suture
