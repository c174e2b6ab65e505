#include "models/bus_kv_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "bus/slab.h"
#include "bus/stream_reader.h"
#include "models/test_models.h"

namespace suture {
namespace {

class BusKvCacheTest : public ::testing::Test {
 protected:
  BusKvCacheTest() {
    SlabOptions options;
    options.shape = model_->config().kv_shape();
    options.max_seq_len = 64;
    options.max_sequences = 1;
    options.owner = PeerId{1};
    slab_ = Slab::create(options).value();
    StreamInfo info;
    info.model_fingerprint = model_->checkpoint().fingerprint();
    info.shape = options.shape;
    cache_ = std::make_unique<BusKvCache>(slab_->open_stream(info, 64).value());
  }

  std::unique_ptr<LanguageModel> model_ = load_tiny("llama");
  std::vector<int32_t> prompt_ = Golden("llama").ids("input_ids");
  std::shared_ptr<Slab> slab_;
  std::unique_ptr<BusKvCache> cache_;
};

TEST_F(BusKvCacheTest, GivesTheSameBitsAsTheHeap) {
  auto heap = model_->make_cache(64).value();
  EXPECT_EQ(prompt_logits(*model_, prompt_, *cache_), prompt_logits(*model_, prompt_, *heap));
  EXPECT_EQ(cache_->size(), std::ssize(prompt_));
  EXPECT_EQ(cache_->capacity(), 64);
  for (int32_t layer = 0; layer < model_->config().n_layers; ++layer) {
    EXPECT_EQ(read_rows(*model_, *cache_, layer).key, read_rows(*model_, *heap, layer).key);
    EXPECT_EQ(read_rows(*model_, *cache_, layer).value, read_rows(*model_, *heap, layer).value);
  }
}

TEST_F(BusKvCacheTest, ReadersLearnTheRopeEpochOfEachRow) {
  const auto model = load_tiny("qwen2_rope_dynamic");  // limit 32
  SlabOptions options;
  options.shape = model->config().kv_shape();
  options.max_seq_len = 64;
  options.max_sequences = 1;
  options.owner = PeerId{1};
  const auto slab = Slab::create(options).value();
  StreamInfo info;
  info.shape = options.shape;
  info.ropes = model->config().ropes;
  BusKvCache cache(slab->open_stream(info, 64).value());
  const auto view = SlabView::map(slab->payload_fd(), slab->control_fd(), PeerId{2}).value();
  const StreamReader reader = view->attach(cache.writer().id()).value();
  PrefillArgs args;
  const std::vector<int32_t> ids(31, 5);
  args.token_ids = ids;
  args.cache = &cache;
  ASSERT_TRUE(model->prefill(args));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(model->decode(7, cache));
  for (const auto& [token, epoch] : std::map<int64_t, int64_t>{{0, 0}, {31, 0}, {32, 33}, {33, 34}})
    EXPECT_EQ(reader.rope_epoch(token), epoch) << token;
}

// The master's layer l starts as soon as the slave's layer l is there.
TEST_F(BusKvCacheTest, AnotherModelReadsWhileItIsWritten) {
  const int64_t n_prompt = std::ssize(prompt_);
  auto whole_cache = model_->make_cache(64).value();
  prompt_logits(*model_, prompt_, *whole_cache);
  const int32_t next = 7;
  const auto expected = prompt_logits(*model_, std::span(&next, 1), *whole_cache);

  const auto master = load_tiny("llama");
  const auto view = SlabView::map(slab_->payload_fd(), slab_->control_fd(), PeerId{2}).value();
  auto reader = view->attach(cache_->writer().id()).value();
  ForeignSegment segment;
  for (int32_t layer = 0; layer < reader.n_layers(); ++layer)
    segment.layers.push_back(reader.layer_view(layer));
  segment.end = n_prompt;
  const SequencePlan plan{.own = {{0, n_prompt}}, .before = {segment}, .after = {}};
  const LayerGate gate = [&](int32_t layer) {
    return reader.wait(layer, n_prompt, deadline_in(std::chrono::seconds(60)));
  };
  auto master_cache = master->make_cache(64).value();
  PrefillArgs args;
  args.token_ids = std::span(&next, 1);
  args.cache = master_cache.get();
  args.plan = &plan;
  args.gate = &gate;

  std::thread slave([&] { prompt_logits(*model_, prompt_, *cache_); });
  const auto logits = master->prefill(args);
  slave.join();
  ASSERT_TRUE(logits) << logits.error().message();
  EXPECT_LE(max_difference(to_host(*master, *logits, master->config().vocab_size), expected),
            1e-4f);
}

}  // namespace
}  // namespace suture
