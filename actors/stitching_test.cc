// Slaves that differ from their master: other vocabularies, frequencies, pairings, element types.
// Two model services in one process, each on a thread of its own, as in processes.
#include "actors/stitching.h"

#include <gtest/gtest.h>

#include <bit>
#include <future>
#include <limits>

#include "actors/engine_thread.h"
#include "actors/model_service.h"
#include "bus/broker.h"
#include "bus/token_ring.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

constexpr float kOff = -std::numeric_limits<float>::infinity();
constexpr int64_t kAnswer = 24;

// Bytes only, and bytes with a few longer tokens.
Vocabulary bytes_vocabulary() { return make_byte_vocabulary({}); }
Vocabulary words_vocabulary() {
  return make_byte_vocabulary({"t h", "th e", "i n", "\u0120 t", "\u0120t he", "e r", "o n"});
}

std::vector<int32_t> bytes_of(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char letter : text) ids.push_back(static_cast<uint8_t>(letter));
  return ids;
}

class Service {
 public:
  explicit Service(std::unique_ptr<ModelService> service)
      : service_(std::move(service)), engine_(std::make_unique<EngineThread>(*service_)) {}
  ~Service() {
    service_->stop();
    engine_.reset();
  }
  template <typename Job>
  auto run(Job job) {
    auto task = std::make_shared<std::packaged_task<decltype(job(*service_))()>>(
        [this, job] { return job(*service_); });
    engine_->post([task] { (*task)(); });
    return task->get_future();
  }

  std::future<ReadDone> read(uint64_t key) {
    auto done = std::make_shared<std::promise<ReadDone>>();
    engine_->post([this, key, done] {
      service_->read(key, [done](ReadDone read) { done->set_value(std::move(read)); });
    });
    return done->get_future();
  }
  GenerateDone generate(const GenerateRequest& request) {
    std::promise<GenerateDone> done;
    engine_->post([&] {
      service_->generate(request, [&](GenerateDone end) { done.set_value(std::move(end)); });
    });
    return done.get_future().get();
  }

 private:
  std::unique_ptr<ModelService> service_;
  std::unique_ptr<EngineThread> engine_;
};

class StitchingTest : public testing::Test {
 protected:
  void SetUp() override {
    BrokerOptions options;
    options.secret = "secret";
    broker_ = Broker::start(std::move(options)).value();
    client_ = BrokerClient::connect(broker_->address(), "secret", "test").value();
  }

  void start(const TextModelOptions& master, const TextModelOptions& slave) {
    slave_.reset();
    master_.reset();
    ++launches_;
    other_vocabulary_ = master.vocabulary.pieces != slave.vocabulary.pieces;
    master_file_.emplace(text_model(master));
    slave_file_.emplace(text_model(slave));
    layers_ = master.n_layers;
    layer_map_.clear();
    for (int32_t layer = 0; layer < layers_; ++layer)
      layer_map_.push_back(std::min(layer, slave.n_layers - 1));
    master_ = load(name_of("master"), Role::kMaster, *master_file_, name_of("slave"), *slave_file_);
    slave_ = load(name_of("slave"), Role::kSlave, *slave_file_, name_of("master"), *master_file_);
  }

  std::string name_of(const std::string& role) const { return role + std::to_string(launches_); }

  std::unique_ptr<Service> load(const std::string& name, Role role, const TemporaryFile& file,
                                const std::string& other, const TemporaryFile& other_file) {
    ModelLoad load;
    load.name = name;
    load.role = role;
    load.path = file.path();
    load.max_seq_len = 256;
    load.max_sequences = 2;
    if (other_vocabulary_) load.vocabularies[other] = other_file.path();
    auto service = ModelService::load(load, [this](const std::string& peer) {
      return BrokerClient::connect(broker_->address(), "secret", peer);
    });
    EXPECT_TRUE(service) << service.error().message();
    return std::make_unique<Service>(std::move(*service));
  }

  GenerateRequest request(const std::vector<int32_t>& prompt, int64_t max_tokens) const {
    GenerateRequest request;
    request.request = 1;
    request.own = {{0, 0}};
    request.first_new_position = std::ssize(prompt);
    request.token_ids = prompt;
    request.max_tokens = max_tokens;
    request.ring = "ring";
    return request;
  }

  std::vector<int32_t> generate(const std::shared_ptr<TokenRing>& ring,
                                const GenerateRequest& request) {
    ring->grant(ring->capacity());
    done_ = master_->generate(request);
    EXPECT_FALSE(done_.outcome.failed) << done_.outcome.what;
    std::vector<int32_t> ids;
    TokenRingReader reader(ring);
    for (auto next = reader.try_next(); next && next->has_value(); next = reader.try_next())
      ids.push_back((*next)->id);
    return ids;
  }

  std::shared_ptr<TokenRing> open_ring() {
    auto ring = TokenRing::create(64).value();
    EXPECT_TRUE(client_->publish_ring("ring", ring->fd()));
    return ring;
  }

  // When nobody asks for it any more: a slave may begin to follow after the answer's end.
  void close_ring() { EXPECT_TRUE(client_->withdraw_ring("ring")); }

  std::vector<int32_t> alone(const std::vector<int32_t>& prompt) {
    auto ids = generate(open_ring(), request(prompt, kAnswer));
    close_ring();
    return ids;
  }

  // The answer with an aligned slave that follows. `gap`: the master's tokens from `head` on sit so
  // much further on.
  std::vector<int32_t> with_aligned(const std::vector<int32_t>& prompt, int64_t max_tokens,
                                    float gain = 0, int64_t lag = 1, int64_t head = 0,
                                    int64_t gap = 0) {
    const auto ring = open_ring();
    const ReadRequest read{.key = 1000 + ++reads_,
                           .token_ids = prompt,
                           .capacity = std::ssize(prompt) + max_tokens,
                           .follow_ring = "ring",
                           .text_of = other_vocabulary_ ? name_of("master") : ""};
    const ReadOpened opened =
        slave_->run([read](ModelService& service) { return service.open(read); }).get();
    EXPECT_FALSE(opened.outcome.failed) << opened.outcome.what;
    auto reading = slave_->read(read.key);
    GenerateRequest stitched = request(prompt, max_tokens);
    SourceLink link{name_of("slave"), opened.stream, {}, true, {}, layer_map_, other_vocabulary_};
    link.layer_gain_bits.assign(static_cast<size_t>(layers_), std::bit_cast<uint32_t>(gain));
    PlannedSegment segment{
        .position = SlavePosition::kAligned, .end = PlannedSegment::kOpenEnd, .lag = lag};
    if (gap > 0) {
      stitched.own.push_back({head, gap});
      stitched.first_new_position += gap;
      PlannedSegment first = segment;
      first.end = head;
      link.segments.push_back(first);
      segment.begin = head;
      segment.position_offset = segment.rotation_shift = gap;
    }
    link.segments.push_back(segment);
    stitched.sources = {link};
    const auto ids = generate(ring, stitched);
    EXPECT_TRUE(done_.degraded.empty());
    const ReadDone read_done = reading.get();
    EXPECT_FALSE(read_done.outcome.failed) << read_done.outcome.what;
    close_ring();
    slave_->run([read](ModelService& service) { return service.drop(read.key), 0; }).get();
    return ids;
  }

  // The answer after a prefix that the slave has read, entries 1 and later of `document`.
  std::vector<int32_t> with_prefix(const std::vector<int32_t>& document,
                                   const std::vector<int32_t>& prompt) {
    const ReadRequest read{
        .key = 1000 + ++reads_, .token_ids = document, .capacity = std::ssize(document)};
    const ReadOpened opened =
        slave_->run([read](ModelService& service) { return service.open(read); }).get();
    slave_->read(read.key).get();
    GenerateRequest stitched = request(prompt, kAnswer);
    const int64_t length = std::ssize(document) - 1;
    stitched.own = {{0, 0}, {1, length}};
    stitched.first_new_position += length;
    SourceLink link{name_of("slave"), opened.stream, {}, true, {}, layer_map_, false};
    link.layer_gain_bits.assign(static_cast<size_t>(layers_), 0);
    link.segments = {{.begin = 1, .end = length + 1}};
    stitched.sources = {link};
    const auto ids = generate(open_ring(), stitched);
    close_ring();
    slave_->run([read](ModelService& service) { return service.drop(read.key), 0; }).get();
    return ids;
  }

  std::unique_ptr<Broker> broker_;
  std::unique_ptr<BrokerClient> client_;
  std::optional<TemporaryFile> master_file_, slave_file_;
  std::unique_ptr<Service> master_, slave_;
  std::vector<int32_t> layer_map_;
  int32_t layers_ = 1;
  bool other_vocabulary_ = false;
  int launches_ = 0;
  uint64_t reads_ = 0;
  GenerateDone done_;
  const std::vector<int32_t> prompt_ = bytes_of("the rain in the north on the other hand");
};

TEST_F(StitchingTest, ASlaveOfAnotherVocabularyFollowsTheText) {
  start({.vocabulary = bytes_vocabulary(), .n_layers = 2},
        {.vocabulary = words_vocabulary(), .n_layers = 2, .seed = 9});
  const auto without = alone(prompt_);
  const auto first = with_aligned(prompt_, kAnswer);
  EXPECT_NE(first, without);
  EXPECT_EQ(first.size(), static_cast<size_t>(kAnswer));
  for (int round = 0; round < 3; ++round) EXPECT_EQ(with_aligned(prompt_, kAnswer), first);
  EXPECT_EQ(with_aligned(prompt_, kAnswer, kOff), without);
  EXPECT_EQ(done_.figures.bus_waits, 0);
  EXPECT_NE(with_aligned(prompt_, kAnswer, 0, /*lag=*/9), first);
  // A gap in the positions shifts the master's tokens and the slave's alike.
  EXPECT_NE(with_aligned(prompt_, kAnswer, 0, 1, /*head=*/7, /*gap=*/30), first);
}

// What has been generated so far gives, read as a prompt, the tokens that came after it.
TEST_F(StitchingTest, DecodingGoesOnAsAPromptOfTheSameTextDoes) {
  start({.vocabulary = bytes_vocabulary(), .n_layers = 2},
        {.vocabulary = words_vocabulary(), .n_layers = 2, .seed = 9});
  for (const int64_t lag : {0, 1, 4}) {
    const auto whole = with_aligned(prompt_, kAnswer, 0, lag);
    for (const int64_t cut : {1, 9, 17}) {
      auto longer = prompt_;
      longer.insert(longer.end(), whole.begin(), whole.begin() + cut);
      const std::vector<int32_t> rest(whole.begin() + cut, whole.end());
      EXPECT_EQ(with_aligned(longer, kAnswer - cut, 0, lag), rest) << "lag " << lag;
    }
  }
}

// K before rotation does not depend on theta in the first layer, nor on the order of its rows: a
// slave that differs in nothing else gives what a slave of the master's own kind gives.
TEST_F(StitchingTest, RowsOfOtherRotationsAreTurnedToTheMastersOwn) {
  const TextModelOptions master{.vocabulary = bytes_vocabulary()};
  const TextModelOptions twin{.vocabulary = bytes_vocabulary(), .seed = 4};
  start(master, twin);
  const auto expected = with_aligned(prompt_, kAnswer);
  const auto expected_gap = with_aligned(prompt_, kAnswer, 0, 2, 7, 30);
  const auto expected_prefix = with_prefix(prompt_, bytes_of("and so on "));
  EXPECT_NE(expected, alone(prompt_));
  EXPECT_NE(expected_prefix, alone(bytes_of("and so on ")));

  TextModelOptions slower = twin;
  slower.theta = 1e6f;
  TextModelOptions neighbours = twin;
  neighbours.pairing = RopePairing::kNeighbours;
  TextModelOptions both = neighbours;
  both.theta = 500;
  for (const TextModelOptions& slave : {slower, neighbours, both}) {
    start(master, slave);
    EXPECT_EQ(with_aligned(prompt_, kAnswer), expected) << slave.theta;
    EXPECT_EQ(with_aligned(prompt_, kAnswer, 0, 2, 7, 30), expected_gap) << slave.theta;
    EXPECT_EQ(with_prefix(prompt_, bytes_of("and so on ")), expected_prefix) << slave.theta;
  }
}

TEST_F(StitchingTest, HalvesAndFloatsMeet) {
  const TextModelOptions floats{.vocabulary = bytes_vocabulary()};
  TextModelOptions halves = floats;
  halves.seed = 4;
  start(floats, halves);
  const auto expected = with_aligned(prompt_, kAnswer);
  halves.half_precision = true;  // rounds one matrix and K/V: the answer is nearly the same
  start(floats, halves);
  const auto from_halves = with_aligned(prompt_, kAnswer);
  EXPECT_EQ(std::vector(from_halves.begin(), from_halves.begin() + 4),
            std::vector(expected.begin(), expected.begin() + 4));
  EXPECT_NE(from_halves, alone(prompt_));
}

}  // namespace
}  // namespace suture
