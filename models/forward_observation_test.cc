// Where the rows of a forward pass look, by what follows from the plan alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include "models/forward.h"
#include "models/test_models.h"

namespace suture {
namespace {

using ::testing::HasSubstr;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// A model of one layer whose queries are 0: every row looks at all it sees alike, so a share is a
// number of entries by another.
std::unique_ptr<LanguageModel> indifferent_model() {
  GgufBuilder builder = one_layer_metadata();
  for (const auto& [name, dims] : one_layer_tensors()) {
    std::vector<float> values(dims[0] * (dims.size() > 1 ? dims[1] : 1));
    if (name != "blk.0.attn_q.weight")
      for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i + 1));
    builder.tensor(name, dims, GgufBuilder::kF32, std::as_bytes(std::span(values)));
  }
  const TemporaryFile file(builder.build());
  return LanguageModel::load(file.path(), {}).value();
}

ForeignSegment segment_of(KvCache& cache, int64_t begin, int64_t end) {
  ForeignSegment segment;
  for (int32_t layer = 0; layer < cache.shape().n_layers; ++layer)
    segment.layers.push_back(cache.layer_view(layer));
  segment.begin = begin;
  segment.end = end;
  return segment;
}

AttentionObservation observe(const ModelConfig& config, std::vector<ObservedRange> ranges) {
  AttentionObservation observation;
  observation.ranges = std::move(ranges);
  for (const ObservedRange& range : observation.ranges)
    observation.n_shares = std::max(observation.n_shares, range.share + 1);
  observation.mass.resize(static_cast<size_t>(config.n_layers) *
                          static_cast<size_t>(observation.n_shares));
  return observation;
}

void prefill(LanguageModel& model, std::span<const int32_t> ids, KvCache& cache,
             const SequencePlan* plan = nullptr, AttentionObservation* observation = nullptr) {
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = &cache;
  args.plan = plan;
  args.observation = observation;
  const auto logits = model.prefill(args);
  ASSERT_TRUE(logits) << logits.error().message();
}

// Ten tokens of its own in two runs, a prefix between them, and an aligned slave.
class IndifferentTest : public ::testing::Test {
 protected:
  IndifferentTest() {
    prefill(*model_, ids_, *prefix_);
    prefill(*model_, ids_, *aligned_);
    plan_.own = {{0, 0}, {4, 6}};
    plan_.before = {segment_of(*prefix_, 1, 7)};
    plan_.before[0].visibility = Visibility::kUpTo;  // at positions 4 to 9
    plan_.before[0].position_offset = 3;
    plan_.before[0].lag = 0;
    plan_.after = {segment_of(*aligned_, 4, 10)};
    plan_.after[0].visibility = Visibility::kUpTo;
    plan_.after[0].position_offset = 6;
    plan_.after[0].lag = 2;
  }
  // Entries of each that the row of an own entry sees.
  static double own_seen(int64_t entry) { return static_cast<double>(entry + 1); }
  static double prefix_seen(int64_t entry) { return entry < 4 ? 0 : 6; }
  static double aligned_seen(int64_t entry) {
    return static_cast<double>(std::clamp<int64_t>(entry - 2 - 4 + 1, 0, 6));
  }

  std::unique_ptr<LanguageModel> model_ = indifferent_model();
  const std::vector<int32_t> ids_ = {1, 2, 3, 4, 0, 1, 2, 3, 4, 0};
  std::unique_ptr<KvCache> prefix_ = model_->make_cache(32).value();
  std::unique_ptr<KvCache> aligned_ = model_->make_cache(32).value();
  std::unique_ptr<KvCache> cache_ = model_->make_cache(32).value();
  SequencePlan plan_;
};

TEST_F(IndifferentTest, SharesAreNumbersOfEntries) {
  // The whole of each, the own tokens 3 to 5 (in both runs), and two entries of the slaves.
  auto observation = observe(model_->config(), {{.share = 0},
                                                {.segment = 0, .share = 1},
                                                {.segment = 1, .share = 2},
                                                {.begin = 3, .end = 6, .share = 3},
                                                {.segment = 0, .begin = 2, .end = 3, .share = 4},
                                                {.segment = 1, .begin = 5, .end = 6, .share = 4}});
  prefill(*model_, ids_, *cache_, &plan_, &observation);
  EXPECT_EQ(observation.rows, 10);
  std::vector<double> expected(5);
  for (int64_t entry = 0; entry < 10; ++entry) {
    const double all = own_seen(entry) + prefix_seen(entry) + aligned_seen(entry);
    expected[0] += own_seen(entry) / all;
    expected[1] += prefix_seen(entry) / all;
    expected[2] += aligned_seen(entry) / all;
    expected[3] += static_cast<double>(std::clamp<int64_t>(entry + 1 - 3, 0, 3)) / all;
    expected[4] += ((prefix_seen(entry) > 0 ? 1 : 0) + (aligned_seen(entry) >= 2 ? 1 : 0)) / all;
  }
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(observation.mass[i], expected[i], 1e-5) << "share " << i;
}

TEST_F(IndifferentTest, AGainWeighsEntriesAndSilenceHasNoShare) {
  const auto n_heads = static_cast<size_t>(model_->config().n_heads);
  const float gain = std::log(3.0f);
  plan_.before[0].log_gain.assign(n_heads, kMinusInfinity);
  plan_.before[0].log_gain[0] = gain;
  auto observation = observe(model_->config(), {{.share = 0}, {.segment = 0, .share = 1}});
  observation.first_entry = 9;
  prefill(*model_, ids_, *cache_, &plan_, &observation);
  EXPECT_EQ(observation.rows, 1);
  const double heard = 3 * prefix_seen(9) / (own_seen(9) + 3 * prefix_seen(9) + aligned_seen(9));
  EXPECT_NEAR(observation.mass[1], heard / static_cast<double>(n_heads), 1e-6);
}

TEST_F(IndifferentTest, OnlyRowsThatAreAskedForCount) {
  auto observation = observe(model_->config(), {{.share = 0}});
  observation.first_entry = 4;
  observation.end_entry = 7;
  prefill(*model_, std::span(ids_).first(6), *cache_, &plan_, &observation);
  for (size_t i = 6; i < 8; ++i) {  // one by one
    const DecodeItem item{ids_[i], cache_.get(), &plan_, &observation};
    ASSERT_TRUE(model_->decode_batch(std::span(&item, 1)).front());
  }
  EXPECT_EQ(observation.rows, 3);
  double expected = 0;
  for (int64_t entry = 4; entry < 7; ++entry)
    expected += own_seen(entry) / (own_seen(entry) + prefix_seen(entry) + aligned_seen(entry));
  EXPECT_NEAR(observation.mass[0], expected, 1e-5);
}

class ForwardObservationTest : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Tiny, ForwardObservationTest,
                         ::testing::Values("llama", "qwen3", "gemma3_text"),
                         [](const auto& test) { return std::string(test.param); });

// More rows than are observed in one go.
TEST_P(ForwardObservationTest, LeavesTheSameBitsAndEveryRowLooksSomewhereInEveryLayer) {
  const auto model = load_tiny(GetParam(), 2);
  std::vector<int32_t> ids(90);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 37 % 60);
  const auto slave = model->make_cache(128).value();
  prefill(*model, ids, *slave);
  SequencePlan plan;
  plan.own = {{0, 0}, {10, 50}};
  plan.before = {segment_of(*slave, 1, 50)};
  const auto alone = model->make_cache(128).value();
  prefill(*model, ids, *alone, &plan);

  auto observation = observe(model->config(), {{.share = 0}, {.segment = 0, .share = 1}});
  observation.first_entry = 12;
  const auto observed = model->make_cache(128).value();
  prefill(*model, ids, *observed, &plan, &observation);
  EXPECT_EQ(observation.rows, 78);
  for (int32_t layer = 0; layer < model->config().n_layers; ++layer) {
    EXPECT_EQ(read_rows(*model, *observed, layer).value, read_rows(*model, *alone, layer).value);
    const double own = observation.mass[static_cast<size_t>(layer) * 2];
    const double other = observation.mass[static_cast<size_t>(layer) * 2 + 1];
    EXPECT_NEAR(own + other, 78, 1e-3) << "layer " << layer;
    EXPECT_GT(own, 0);
    // A sliding window may end before the slave's entries.
    const bool far = model->config().layer_rules[static_cast<size_t>(layer)].window > 0;
    EXPECT_TRUE(far || other > 0) << "layer " << layer;
  }
}

TEST_P(ForwardObservationTest, RefusesWhatHasNoPlace) {
  const auto model = load_tiny(GetParam());
  const auto cache = model->make_cache(32).value();
  const std::vector<int32_t> ids = {1, 2};
  AttentionObservation observation;
  SequenceRows rows;
  rows.token_ids = ids;
  rows.cache = cache.get();
  rows.observation = &observation;
  const auto refusal = [&] {
    const auto logits = model->forward().run(rows, MatmulPath::kPrefill);
    return logits ? std::string() : logits.error().what;
  };
  EXPECT_THAT(refusal(), HasSubstr("0 shares"));
  observation.n_shares = kMaxAttentionShares + 1;
  EXPECT_THAT(refusal(), HasSubstr("65 shares"));
  observation.n_shares = 2;
  observation.mass.resize(3);
  EXPECT_THAT(refusal(), HasSubstr("3 sums"));
  EXPECT_EQ(cache->size(), 0);
}

}  // namespace
}  // namespace suture
