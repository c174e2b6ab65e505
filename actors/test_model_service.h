// For tests of what a model process does: two of them, master and slave, and a broker in between.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <future>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine_thread.h"
#include "actors/model_service.h"
#include "base/mapping.h"
#include "bus/broker.h"
#include "bus/token_ring.h"
#include "models/safetensors.h"

namespace suture::model_service_test {

inline constexpr float kOff = -std::numeric_limits<float>::infinity();
inline const std::filesystem::path kTiny =
    std::filesystem::path(SUTURE_TEST_DATA_DIR) / "tiny" / "llama";

inline std::vector<int32_t> golden_ids(const std::string& name,
                                       const std::filesystem::path& folder = kTiny,
                                       const std::string& golden_file = "golden") {
  const Mapping file = Mapping::file(folder / (golden_file + ".safetensors")).value();
  const SafetensorsFile golden = SafetensorsFile::parse(file.bytes(), "golden").value();
  const std::span<const std::byte> data = golden.find(name)->data;
  std::vector<int64_t> wide(data.size() / sizeof(int64_t));
  std::memcpy(wide.data(), data.data(), data.size());
  return {wide.begin(), wide.end()};
}

// One model with its engine thread, as in a process of its own.
struct Process {
  std::unique_ptr<ModelService> service;
  std::unique_ptr<EngineThread> engine = std::make_unique<EngineThread>(*service);

  template <typename Job>
  auto run(Job job) {
    auto task = std::make_shared<std::packaged_task<decltype(job())()>>(std::move(job));
    engine->post([task] { (*task)(); });
    return task->get_future();
  }
  std::future<ReadDone> read(uint64_t key) {
    auto done = std::make_shared<std::promise<ReadDone>>();
    run([this, key, done] {
      service->read(key, [done](ReadDone read) { done->set_value(std::move(read)); });
    });
    return done->get_future();
  }
  std::future<GenerateDone> generate(GenerateRequest request) {
    auto done = std::make_shared<std::promise<GenerateDone>>();
    run([this, request = std::move(request), done] {
      service->generate(request, [done](GenerateDone end) { done->set_value(std::move(end)); });
    });
    return done->get_future();
  }
};

class ModelServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    BrokerOptions options;
    options.secret = "secret";
    broker_ = Broker::start(std::move(options)).value();
    client_ = BrokerClient::connect(broker_->address(), "secret", "test").value();
    master_ = start("master", Role::kMaster);
    slave_ = start("slave", Role::kSlave);
  }
  void TearDown() override {
    for (Process* process : {&master_, &slave_}) {
      process->service->stop();
      process->engine.reset();
    }
  }

  Process start(const std::string& name, Role role, const std::filesystem::path& path = kTiny,
                RopeCrossing crossing = RopeCrossing::kKeep) {
    ModelLoad load;
    load.name = name;
    load.role = role;
    load.path = path;
    load.rope_crossing = crossing;
    load.max_seq_len = 128;
    load.max_sequences = 2;
    return {ModelService::load(load, [this](const std::string& peer) {
              return BrokerClient::connect(broker_->address(), "secret", peer);
            }).value()};
  }

  std::shared_ptr<TokenRing> open_ring(const std::string& name, uint32_t capacity = 64) {
    auto ring = TokenRing::create(capacity).value();
    EXPECT_TRUE(client_->publish_ring(name, ring->fd()));
    return ring;
  }

  // Reads `ids` on the slave and gives the stream; the reading goes on behind it.
  StreamRef read_on_slave(std::vector<int32_t> ids, uint64_t key, const std::string& ring = "") {
    const ReadRequest request{key, std::move(ids), 100, ring};
    ModelService& service = *slave_.service;
    const ReadOpened opened =
        slave_.run([&service, request] { return service.open(request); }).get();
    EXPECT_FALSE(opened.outcome.failed) << opened.outcome.what;
    slave_read_ = slave_.read(key);
    return opened.stream;
  }

  GenerateRequest request(std::vector<int32_t> own, int64_t max_tokens) {
    GenerateRequest request;
    request.request = 1;
    request.own = {{0, 0}};
    request.first_new_position = std::ssize(own);
    request.token_ids = std::move(own);
    request.max_tokens = max_tokens;
    request.ring = "ring";
    return request;
  }

  std::future<GenerateDone> generate(const GenerateRequest& request) {
    return master_.generate(request);
  }

  std::vector<int32_t> tokens(const std::shared_ptr<TokenRing>& ring) {
    std::vector<int32_t> ids;
    TokenRingReader reader(ring);
    while (true) {
      const auto next = reader.try_next();
      if (!next || !next->has_value()) return ids;
      ids.push_back((*next)->id);
    }
  }

  // Whole run with all credit granted.
  std::vector<int32_t> answer(const GenerateRequest& request, GenerateDone* done = nullptr) {
    return answer_into(open_ring(request.ring), request, done);
  }
  std::vector<int32_t> answer_into(const std::shared_ptr<TokenRing>& ring,
                                   const GenerateRequest& request, GenerateDone* done = nullptr) {
    ring->grant(ring->capacity());
    const GenerateDone result = generate(request).get();
    EXPECT_FALSE(result.outcome.failed) << result.outcome.what;
    if (done != nullptr) *done = result;
    EXPECT_TRUE(client_->withdraw_ring(request.ring));
    return tokens(ring);
  }

  // A source that takes entries [begin, end) of a prefix at the same positions.
  SourceLink prefix(const StreamRef& stream, int64_t begin, int64_t end, float gain = 0) const {
    PlannedSegment segment;
    segment.begin = begin;
    segment.end = end;
    return {
        "slave",  stream, {segment}, false, std::vector<uint32_t>(3, std::bit_cast<uint32_t>(gain)),
        {0, 1, 2}};
  }
  SourceLink aligned(const StreamRef& stream, int64_t lag, float gain) const {
    PlannedSegment segment;
    segment.position = SlavePosition::kAligned;
    segment.end = PlannedSegment::kOpenEnd;
    segment.lag = lag;
    return {
        "slave",  stream, {segment}, false, std::vector<uint32_t>(3, std::bit_cast<uint32_t>(gain)),
        {0, 1, 2}};
  }

  // The first tokens after 12 of the prompt, up to one that has not come before.
  std::vector<int32_t> greedy_of_twelve() {
    std::vector<int32_t> ids = answer(request({prompt_.begin(), prompt_.begin() + 12}, 8));
    auto last = ids.end() - 1;
    while (std::find(ids.begin(), last, *last) != last) --last;
    return {ids.begin(), last + 1};
  }

  std::unique_ptr<Broker> broker_;
  std::unique_ptr<BrokerClient> client_;
  Process master_{nullptr, nullptr};
  Process slave_{nullptr, nullptr};
  std::future<ReadDone> slave_read_;
  const std::vector<int32_t> prompt_ = golden_ids("input_ids");
  const std::vector<int32_t> greedy_ = golden_ids("greedy_ids");
};

}  // namespace suture::model_service_test
