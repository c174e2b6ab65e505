// What the sequences of a model process have in common: one that is cancelled while a chunk of its
// prompt is being read ends between two layers.
#include "actors/sequence_task.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "actors/drafting.h"
#include "actors/generation.h"
#include "actors/stream_reading.h"
#include "bus/broker.h"
#include "models/test_models.h"

namespace suture {
namespace {

constexpr int64_t kTokens = 64;  // of a stream, at most

class SequenceTaskTest : public testing::Test {
 protected:
  SequenceTaskTest() {
    BrokerOptions options;
    options.secret = "secret";
    broker_ = Broker::start(std::move(options)).value();
    client_ = BrokerClient::connect(broker_->address(), "secret", "test").value();
  }

  // Reads the prompt.
  std::unique_ptr<StreamReading> reading(ReadDone& done) {
    auto stream = std::make_shared<OpenStream>();
    stream->token_ids = stream->request.token_ids = prompt_;
    stream->cache = streams_.open(0, 0, prompt_, kTokens, 1).value();
    return std::make_unique<StreamReading>(
        std::move(stream), StreamReading::Engine{*model_, *client_, streams_, meter_}, cancelled_,
        TraceLog("test", false), [&done](ReadDone read) { done = std::move(read); });
  }

  // Bytes of K and V that the task has published when it was cancelled in its first layer.
  template <typename Task, typename Done>
  int64_t published_when_cancelled(Task& task, const Done& done) {
    EXPECT_EQ(task.look(), Turn::kChunk);
    cancelled_->store(true);
    task.read_chunk(kPrefillGrid);
    EXPECT_EQ(task.look(), Turn::kDone);
    task.finish();
    return done.figures.kv_bytes_published;
  }

  // What one layer of the prompt takes.
  int64_t layer_bytes() const {
    const KvShape shape = model_->config().kv_shape();
    return shape.token_bytes() / shape.n_layers * std::ssize(prompt_);
  }

  std::unique_ptr<LanguageModel> model_ = load_tiny("llama");
  const std::vector<int32_t> prompt_ = Golden("llama").ids("input_ids");
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<BrokerClient> client_;
  const std::shared_ptr<Slab> slab_ = Slab::create({.shape = model_->config().kv_shape(),
                                                    .max_seq_len = kTokens,
                                                    .max_sequences = 1,
                                                    .owner = PeerId{1}})
                                          .value();
  ModelStreams streams_{slab_, model_->config(), model_->fingerprint()};
  const Vocabularies vocabularies_ = Vocabularies::load(model_->checkpoint(), {}).value();
  const RowProjectors projectors_;
  const WorkMeter meter_{slab_->control().figures()};
  const std::shared_ptr<CancelFlag> cancelled_ = std::make_shared<CancelFlag>(false);
};

TEST_F(SequenceTaskTest, AReadingThatIsCancelledEndsBetweenTwoLayers) {
  ReadDone done;
  const auto task = reading(done);
  EXPECT_LE(published_when_cancelled(*task, done), layer_bytes());
  EXPECT_TRUE(done.outcome.failed);
  EXPECT_EQ(done.outcome.what, "the request was cancelled");
}

TEST_F(SequenceTaskTest, ADraftThatIsCancelledEndsBetweenTwoLayers) {
  ReadRequest request;
  request.token_ids = prompt_;
  request.draft = {.tokens = 8, .end_ids = {}};
  const std::string name = "test";
  ReadDone done;
  Drafting task(request, {name, kTokens, *model_, vocabularies_, streams_, nullptr, meter_},
                cancelled_, {"test", false}, [&](ReadDone read) { done = std::move(read); });
  EXPECT_LE(published_when_cancelled(task, done), layer_bytes());
  EXPECT_TRUE(done.outcome.failed);
  EXPECT_EQ(done.outcome.what, "the request was cancelled");
}

TEST_F(SequenceTaskTest, AnAnswerThatIsCancelledEndsBetweenTwoLayers) {
  GenerateRequest request;
  request.token_ids = prompt_;
  request.own = {{0, 0}};
  request.scored_tokens = 4;
  GenerateDone done;
  Generation task(
      request,
      {*model_, vocabularies_, projectors_, RopeCrossing::kKeep, *client_, streams_, meter_},
      cancelled_, {"test", false}, [&](GenerateDone end) { done = std::move(end); });
  EXPECT_LE(published_when_cancelled(task, done), layer_bytes());
  EXPECT_FALSE(done.outcome.failed);
  EXPECT_EQ(done.reason, FinishReason::kCancelled);
}

// By the same measure: otherwise nothing above could fail.
TEST_F(SequenceTaskTest, AReadingThatIsNotCancelledPublishesEveryLayer) {
  ReadDone done;
  const auto task = reading(done);
  EXPECT_EQ(task->look(), Turn::kChunk);
  task->read_chunk(kPrefillGrid);
  EXPECT_EQ(task->look(), Turn::kDone);
  task->finish();
  EXPECT_EQ(done.figures.kv_bytes_published, layer_bytes() * model_->config().n_layers);
}

}  // namespace
}  // namespace suture
