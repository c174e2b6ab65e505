// Nothing is taken from the heap for a token, once the first have been through.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "bus/slab.h"
#include "models/bus_kv_cache.h"
#include "models/sampler.h"
#include "models/test_allocations.h"
#include "models/test_models.h"
#include "models/test_quantised_model.h"

namespace suture {
namespace {

constexpr int64_t kCapacity = 1024;  // entries
constexpr int64_t kPrompt = 250;
constexpr int64_t kTokens = 300;  // past two ends of a span of attention, and several of a block

std::vector<int32_t> some_ids(const LanguageModel& model, int64_t n) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i)
    ids.push_back(static_cast<int32_t>((i * 37 + 5) % model.config().vocab_size));
  return ids;
}

class DecodeAllocationsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!allocations_are_counted()) GTEST_SKIP() << "the heap belongs to the sanitizer";
    if (std::string_view(GetParam()) == "quantised") {
      const TemporaryFile file(quantised_llama());
      model_ = LanguageModel::load(file.path(), {.threads = 2}).value();
    } else {
      model_ = load_tiny(GetParam(), 2);
    }
    ASSERT_TRUE(model_->warm_up());
    sampler_ = Sampler::create(model_->device(), model_->config().vocab_size).value();
  }

  void read_prompt(KvCache& cache, const SequencePlan* plan = nullptr) {
    const auto ids = some_ids(*model_, kPrompt);
    PrefillArgs args;
    args.token_ids = ids;
    args.cache = &cache;
    args.plan = plan;
    ASSERT_TRUE(model_->prefill(args));
  }

  // What another sequence contributes, turned by `shift`.
  ForeignSegment segment_of(KvCache& other, int64_t shift) {
    ForeignSegment segment;
    for (int32_t layer = 0; layer < other.shape().n_layers; ++layer)
      segment.layers.push_back(other.layer_view(layer));
    segment.end = kPrompt;
    segment.rotation_shift = shift;
    return segment;
  }

  // Allocations from the third token on.
  int64_t allocations_of_tokens(KvCache& cache, const SequencePlan* plan,
                                AttentionObservation* observation = nullptr) {
    SamplingOptions sampling;
    sampling.temperature = 0.8f;
    int32_t token = 3;
    int64_t before = 0;
    for (int64_t i = 0; i < kTokens; ++i) {
      if (i == 2) before = allocations_so_far();
      const DecodeItem item{token, &cache, plan, observation};
      const auto logits = model_->decode_batch(std::span(&item, 1)).front();
      EXPECT_TRUE(logits);
      token = sampler_->sample(model_->stream(), *logits, sampling, i).value();
    }
    return allocations_so_far() - before;
  }

  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Sampler> sampler_;
};

// One of them has other rope tables for every token.
INSTANTIATE_TEST_SUITE_P(Tiny, DecodeAllocationsTest,
                         ::testing::Values("llama", "gemma3_text", "qwen2", "quantised",
                                           "qwen2_rope_dynamic"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(DecodeAllocationsTest, CountsWhatIsTaken) {
  const int64_t before = allocations_so_far();
  const auto memory = std::make_unique<std::vector<int>>(1000);
  EXPECT_GE(allocations_so_far() - before, 2);
}

TEST_P(DecodeAllocationsTest, OneModelAlone) {
  const auto cache = model_->make_cache(kCapacity).value();
  read_prompt(*cache);
  EXPECT_EQ(allocations_of_tokens(*cache, nullptr), 0);
}

TEST_P(DecodeAllocationsTest, StitchedWithSegments) {
  const auto document = model_->make_cache(kCapacity).value();
  const auto companion = model_->make_cache(kCapacity).value();
  read_prompt(*document);
  read_prompt(*companion);
  std::vector<int64_t> visible_from;
  for (int64_t i = 0; i < kPrompt; ++i) visible_from.push_back(i + 1);
  ForeignSegment aligned = segment_of(*companion, 0);
  aligned.visible_from = visible_from;
  const SequencePlan plan{
      .own = {{0, 0}, {10, kPrompt}}, .before = {segment_of(*document, 7)}, .after = {aligned}};
  const auto cache = model_->make_cache(kCapacity).value();
  read_prompt(*cache, &plan);
  EXPECT_EQ(allocations_of_tokens(*cache, &plan), 0);
}

// Even where it is asked where the tokens look.
TEST_P(DecodeAllocationsTest, Observed) {
  const auto document = model_->make_cache(kCapacity).value();
  read_prompt(*document);
  const SequencePlan plan{
      .own = {{0, 0}, {10, kPrompt}}, .before = {segment_of(*document, 7)}, .after = {}};
  AttentionObservation observation;
  observation.ranges = {
      {.share = 0}, {.segment = 0, .share = 1}, {.begin = 5, .end = 9, .share = 2}};
  observation.n_shares = 3;
  observation.mass.resize(static_cast<size_t>(model_->config().n_layers) * 3);
  const auto cache = model_->make_cache(kCapacity).value();
  read_prompt(*cache, &plan);
  EXPECT_EQ(allocations_of_tokens(*cache, &plan, &observation), 0);
  EXPECT_EQ(observation.rows, kTokens);
}

TEST_P(DecodeAllocationsTest, OnTheBus) {
  SlabOptions options;
  options.shape = model_->config().kv_shape();
  options.max_seq_len = kCapacity;
  options.max_sequences = 1;
  options.owner = PeerId{1};
  const auto slab = Slab::create(options).value();
  StreamInfo info;
  info.model_fingerprint = model_->checkpoint().fingerprint();
  info.shape = options.shape;
  BusKvCache cache(slab->open_stream(info, kCapacity).value());
  read_prompt(cache);
  EXPECT_EQ(allocations_of_tokens(cache, nullptr), 0);
}

TEST_P(DecodeAllocationsTest, SeveralSequencesTogether) {
  std::vector<std::unique_ptr<KvCache>> caches;
  std::vector<DecodeItem> items;
  for (int32_t i = 0; i < 4; ++i) {
    caches.push_back(model_->make_cache(kCapacity).value());
    read_prompt(*caches.back());
    items.push_back({.token_id = i, .cache = caches.back().get()});
  }
  int64_t before = 0;
  for (int i = 0; i < 20; ++i) {
    if (i == 2) before = allocations_so_far();
    for (const SequenceLogits& logits : model_->decode_batch(items)) EXPECT_TRUE(logits);
  }
  EXPECT_EQ(allocations_so_far() - before, 0);
}

}  // namespace
}  // namespace suture
