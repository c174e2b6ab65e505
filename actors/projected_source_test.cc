// Rows that a master maps from its slave's own stream, against those that a slave maps itself.
#include "actors/projected_source.h"

#include <gtest/gtest.h>

#include <future>
#include <span>
#include <utility>

#include "actors/engine_thread.h"
#include "actors/model_service.h"
#include "base/test_folder.h"
#include "bus/broker.h"
#include "fusion/projector_file.h"
#include "fusion/test_projector.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

constexpr int64_t kTokens = 90;

// A slave with its engine thread.
class Slave {
 public:
  explicit Slave(std::unique_ptr<ModelService> service)
      : service_(std::move(service)), engine_(std::make_unique<EngineThread>(*service_)) {}
  ~Slave() {
    service_->stop();
    engine_.reset();
  }
  Slave(const Slave&) = delete;
  Slave& operator=(const Slave&) = delete;

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

 private:
  std::unique_ptr<ModelService> service_;
  std::unique_ptr<EngineThread> engine_;
};

class ProjectedSourceTest : public testing::Test {
 protected:
  ProjectedSourceTest()
      : master_file_(text_model({.vocabulary = make_byte_vocabulary({}), .n_layers = 2})),
        // Too narrow for maps in 8 bits: prompts and generated rows then have kernels that differ.
        slave_file_(text_model(
            {.vocabulary = make_byte_vocabulary({}), .n_layers = 3, .kv_heads = 1, .seed = 3})) {}

  void SetUp() override {
    BrokerOptions options;
    options.secret = "secret";
    broker_ = Broker::start(std::move(options)).value();
    client_ = BrokerClient::connect(broker_->address(), "secret", "m").value();
    master_ = LanguageModel::load(master_file_.path(), {}).value();
    const auto source = Checkpoint::open(slave_file_.path()).value();
    TestProjector made(DType::kBf16, {{{0, 2}, {1}}, {{1}, {0, 1, 2}}}, source->config(),
                       master_->config(), 1, /*own_first_layer=*/true);
    made.value.source.kv.model_fingerprint = source->fingerprint();
    made.value.target.kv.model_fingerprint = master_->fingerprint();
    ASSERT_TRUE(write_projector(path_, made.value));
    const ProjectionLoad load{.projector = path_, .other = "s", .other_path = slave_file_.path()};
    projector_ = RowProjector::create(load, *master_, Role::kMaster, 128).value();
    for (int32_t i = 0; i < kTokens; ++i) text_.push_back('a' + i * 7 % 26);
  }

  std::unique_ptr<Slave> start(const std::string& name, bool maps) {
    ModelLoad load;
    load.name = name;
    load.role = Role::kSlave;
    load.path = slave_file_.path();
    load.max_seq_len = 128;
    load.max_sequences = 8;
    if (maps)
      load.projection =
          ProjectionLoad{.projector = path_, .other = "m", .other_path = master_file_.path()};
    auto service = ModelService::load(load, [this](const std::string& peer) {
      return BrokerClient::connect(broker_->address(), "secret", peer);
    });
    EXPECT_TRUE(service.has_value()) << service.error().message();
    return std::make_unique<Slave>(std::move(*service));
  }
  StreamReader attach(const StreamRef& stream) const {
    return client_->slab(stream.owner).value()->attach({stream.slot, stream.generation}).value();
  }
  static StreamInfo info_of(const StreamRef& stream) {
    return decode_stream_info(std::as_bytes(std::span(stream.info))).value();
  }
  // K and V of entries [0, n) of all layers and heads.
  static std::vector<std::byte> bytes_of(const RowSource& rows, int64_t n) {
    const int64_t row = rows.shape.head_dim * rows.shape.element_bytes();
    std::vector<std::byte> bytes;
    for (int32_t layer = 0; layer < rows.shape.n_layers; ++layer)
      for (int64_t entry = 0; entry < n; ++entry)
        for (int32_t head = 0; head < rows.shape.n_kv_heads; ++head) {
          const KvBlockRows block =
              kv_block_rows(rows.shape, rows.layer_view(layer), entry / kKvBlockTokens, head);
          for (const std::byte* values : {block.key, block.value}) {
            const std::byte* at = values + entry % kKvBlockTokens * row;
            bytes.insert(bytes.end(), at, at + row);
          }
        }
    return bytes;
  }

  TestFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "p.suture";
  const TemporaryFile master_file_;
  const TemporaryFile slave_file_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<BrokerClient> client_;
  std::unique_ptr<LanguageModel> master_;
  std::unique_ptr<RowProjector> projector_;
  std::vector<int32_t> text_;
};

// In whatever steps they are mapped.
TEST_F(ProjectedSourceTest, RowsAreThoseThatTheSlaveWouldPublish) {
  const auto writer = start("w", true);
  const auto slave = start("s", false);
  const std::vector<AnswerRun> answers = {{20, 30}, {50, 51}};
  const ReadRequest request{.key = 2, .token_ids = text_, .answers = answers};
  const StreamReader expected = attach(writer->read(request));
  const StreamRef stream = slave->read(request);
  const StreamReader reader = attach(stream);
  for (const int64_t most : {int64_t{7}, kTokens}) {
    auto mapped = ProjectedSource::create(*projector_, master_->device(), info_of(stream),
                                          {text_, answers}, kTokens)
                      .value();
    while (mapped->can_extend(reader, nullptr, kTokens)) {
      const int64_t before = mapped->rows().size();
      ASSERT_TRUE(mapped->extend(reader, nullptr, kTokens, most));
      EXPECT_GT(mapped->rows().size(), before);
      EXPECT_LE(mapped->rows().size(), before + most);
    }
    EXPECT_EQ(mapped->rows().size(), kTokens);
    EXPECT_GT(mapped->seconds(), 0);
    EXPECT_EQ(bytes_of(rows_of(mapped->rows()), kTokens), bytes_of(rows_of(expected), kTokens));
  }
  // Without them, all are a prompt's.
  auto plain =
      ProjectedSource::create(*projector_, master_->device(), info_of(stream), {text_}, kTokens)
          .value();
  ASSERT_TRUE(plain->extend(reader, nullptr, kTokens, kTokens));
  EXPECT_EQ(bytes_of(rows_of(plain->rows()), 20), bytes_of(rows_of(expected), 20));
  EXPECT_NE(bytes_of(rows_of(plain->rows()), 30), bytes_of(rows_of(expected), 30));
}

// What lies beyond the capacity, or what is asked for, is left alone.
TEST_F(ProjectedSourceTest, NothingIsMappedBeyondWhatIsThere) {
  const auto slave = start("s", false);
  const StreamRef stream = slave->read({.key = 2, .token_ids = text_});
  const StreamReader reader = attach(stream);
  auto mapped =
      ProjectedSource::create(*projector_, master_->device(), info_of(stream), {text_}, 40).value();
  ASSERT_TRUE(mapped->extend(reader, nullptr, 10, 40));
  EXPECT_EQ(mapped->rows().size(), 10);
  EXPECT_FALSE(mapped->can_extend(reader, nullptr, 10));
  ASSERT_TRUE(mapped->extend(reader, nullptr, 60, 60));
  EXPECT_EQ(mapped->rows().size(), 40);
  EXPECT_FALSE(mapped->can_extend(reader, nullptr, 60));
}

TEST_F(ProjectedSourceTest, AStreamOfAnotherModelIsRefused) {
  const auto slave = start("s", false);
  StreamInfo info = info_of(slave->read({.key = 2, .token_ids = text_}));
  EXPECT_TRUE(ProjectedSource::create(*projector_, master_->device(), info, {text_}, 40));
  info.model_fingerprint += "x";
  const auto refused = ProjectedSource::create(*projector_, master_->device(), info, {text_}, 40);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kIncompatible);
}

// The projector is checked in the master's process too.
TEST_F(ProjectedSourceTest, AProjectorOfOtherModelsIsRefusedUnlessForced) {
  ProjectionLoad load{.projector = path_, .other = "s", .other_path = master_file_.path()};
  EXPECT_FALSE(RowProjector::create(load, *master_, Role::kMaster, 128));
  load.other_path = slave_file_.path();
  Projector other = read_projector(path_).value();
  other.source.kv.model_fingerprint = "another";
  load.projector = folder_.path() / "other.suture";
  ASSERT_TRUE(write_projector(load.projector, other));
  const auto refused = RowProjector::create(load, *master_, Role::kMaster, 128);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kIncompatible);
  load.force = true;
  EXPECT_TRUE(RowProjector::create(load, *master_, Role::kMaster, 128));
}

}  // namespace
}  // namespace suture
