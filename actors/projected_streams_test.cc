// Rows that a slave maps and publishes, as its master's process finds them.
#include "actors/projected_streams.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <span>

#include "actors/engine_thread.h"
#include "actors/model_service.h"
#include "base/test_folder.h"
#include "bus/broker.h"
#include "bus/stream_reader.h"
#include "fusion/projector_file.h"
#include "fusion/test_projector.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

constexpr int64_t kLayers = 2;  // of the master

class ProjectedStreamsTest : public testing::Test {
 protected:
  ProjectedStreamsTest()
      : master_(text_model({.vocabulary = make_byte_vocabulary({}), .n_layers = kLayers})),
        slave_(text_model(
            {.vocabulary = make_byte_vocabulary({}), .n_layers = 3, .kv_heads = 4, .seed = 3})) {}

  void SetUp() override {
    BrokerOptions options;
    options.secret = "secret";
    broker_ = Broker::start(std::move(options)).value();
    client_ = BrokerClient::connect(broker_->address(), "secret", "m").value();
    const auto source = Checkpoint::open(slave_.path()).value();
    const auto target = Checkpoint::open(master_.path()).value();
    TestProjector made(DType::kBf16, {{{0, 2}, {1}}, {{1}, {0, 1, 2}}}, source->config(),
                       target->config());
    made.value.source.kv.model_fingerprint = source->fingerprint();
    made.value.target.kv.model_fingerprint = target->fingerprint();
    projector_ = std::make_unique<Projector>(made.value);
    ASSERT_TRUE(write_projector(path_, *projector_));
  }
  void TearDown() override {
    if (service_) service_->stop();
    engine_.reset();
  }

  Status load(bool force = false) {
    ModelLoad load;
    load.name = "s";
    load.role = Role::kSlave;
    load.path = slave_.path();
    load.max_seq_len = 128;
    load.max_sequences = 8;
    load.projection = ProjectionLoad{
        .projector = path_, .other = "m", .other_path = master_.path(), .force = force};
    SUTURE_ASSIGN_OR_RETURN(service_, ModelService::load(load, [this](const std::string& peer) {
                              return BrokerClient::connect(broker_->address(), "secret", peer);
                            }));
    engine_ = std::make_unique<EngineThread>(*service_);
    return {};
  }
  // Reads; gives the stream that is announced.
  StreamRef read(const ReadRequest& request) {
    std::promise<ReadOpened> opened;
    std::promise<ReadDone> done;
    engine_->post([&] {
      opened.set_value(service_->open(request));
      service_->read(request.key, [&](ReadDone read) { done.set_value(std::move(read)); });
    });
    const ReadOpened answer = opened.get_future().get();
    EXPECT_FALSE(answer.outcome.failed) << answer.outcome.what;
    EXPECT_FALSE(done.get_future().get().outcome.failed);
    return answer.stream;
  }
  // K of entries [0, n) of all layers and heads.
  std::vector<std::byte> keys(const StreamRef& stream, int64_t n) const {
    auto view = client_->slab(stream.owner).value();
    auto reader = view->attach({stream.slot, stream.generation}).value();
    EXPECT_TRUE(reader.has(kLayers - 1, n).value());
    const KvShape& shape = reader.shape();
    const int64_t row = shape.head_dim * shape.element_bytes();
    std::vector<std::byte> bytes;
    for (int32_t layer = 0; layer < shape.n_layers; ++layer) {
      const KvLayerView rows = reader.layer_view(layer);
      for (int64_t entry = 0; entry < n; ++entry)
        for (int32_t head = 0; head < shape.n_kv_heads; ++head) {
          const std::byte* at = kv_block_rows(shape, rows, entry / kKvBlockTokens, head).key +
                                entry % kKvBlockTokens * row;
          bytes.insert(bytes.end(), at, at + row);
        }
    }
    return bytes;
  }

  TestFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "p.suture";
  const TemporaryFile master_;
  const TemporaryFile slave_;
  std::unique_ptr<Projector> projector_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<BrokerClient> client_;
  std::shared_ptr<ModelService> service_;
  std::unique_ptr<EngineThread> engine_;
};

std::vector<int32_t> some_text(int64_t n) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>('a' + i * 7 % 26));
  return ids;
}

TEST_F(ProjectedStreamsTest, RowsOfTheMastersShapeAreAnnounced) {
  ASSERT_TRUE(load());
  const StreamRef stream = read({.key = 2, .token_ids = some_text(40)});
  EXPECT_EQ(stream.owner, "s>m");
  EXPECT_EQ(stream.first_entry, 0);
  const auto info = decode_stream_info(std::as_bytes(std::span(stream.info)));
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->shape.n_layers, kLayers);
  EXPECT_EQ(info->shape.n_kv_heads, 2);
  EXPECT_EQ(info->model_fingerprint, projector_->target.kv.model_fingerprint);
  EXPECT_EQ(info->token_ids.size(), 40u);
}

// What was mapped for another request is taken over, and is what it would be anew.
TEST_F(ProjectedStreamsTest, AForkHasTheRowsThatItWouldHaveReadItself) {
  ASSERT_TRUE(load());
  read({.key = 2, .token_ids = some_text(45)});
  const StreamRef forked =
      read({.key = 4, .token_ids = some_text(90), .head_key = 2, .head_entries = 45});
  const StreamRef anew = read({.key = 6, .token_ids = some_text(90)});
  EXPECT_EQ(keys(forked, 90), keys(anew, 90));
  std::vector<int32_t> other = some_text(90);
  other[50] = 'z';
  const StreamRef changed = read({.key = 8, .token_ids = other, .head_key = 2, .head_entries = 45});
  EXPECT_EQ(keys(changed, 45), keys(anew, 45));
  EXPECT_NE(keys(changed, 90), keys(anew, 90));
}

// Rows of earlier answers are mapped with the kernels of generated tokens.
TEST_F(ProjectedStreamsTest, GeneratedTokensHaveKernelsOfTheirOwn) {
  ASSERT_TRUE(load());
  const StreamRef plain = read({.key = 2, .token_ids = some_text(40)});
  const StreamRef answered = read({.key = 4, .token_ids = some_text(40), .answers = {{20, 30}}});
  EXPECT_EQ(keys(answered, 20), keys(plain, 20));
  EXPECT_NE(keys(answered, 40), keys(plain, 40));
}

TEST_F(ProjectedStreamsTest, AProjectorOfOtherModelsIsRefusedUnlessForced) {
  projector_->target.kv.model_fingerprint = "another";
  ASSERT_TRUE(write_projector(path_, *projector_));
  const Status refused = load();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kIncompatible);
  EXPECT_TRUE(load(/*force=*/true));
}

}  // namespace
}  // namespace suture
