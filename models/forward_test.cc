#include "models/forward.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "models/test_models.h"

namespace suture {
namespace {

using ::testing::HasSubstr;

constexpr float kLogitTolerance = 1e-3f;  // of the reference values
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The first `end` entries of another cache, at positions that equal their index.
ForeignSegment segment_of(KvCache& cache, int64_t end, Visibility visibility) {
  ForeignSegment segment;
  for (int32_t layer = 0; layer < cache.shape().n_layers; ++layer)
    segment.layers.push_back(cache.layer_view(layer));
  segment.end = end;
  segment.visibility = visibility;
  return segment;
}

class ForwardTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { prompt_.resize(24); }  // some prompts are longer
  std::unique_ptr<KvCache> make_cache() { return model_->make_cache(512).value(); }
  std::vector<float> logits_of(std::span<const int32_t> ids, KvCache& cache,
                               const SequencePlan* plan = nullptr) {
    return prompt_logits(*model_, ids, cache, plan);
  }
  std::span<const float> row(const std::vector<float>& logits, int64_t index) const {
    const auto vocab = static_cast<size_t>(model_->config().vocab_size);
    return std::span(logits).subspan(static_cast<size_t>(index) * vocab, vocab);
  }

  std::unique_ptr<LanguageModel> model_ = load_tiny(GetParam());
  Golden golden_{GetParam()};
  std::vector<int32_t> prompt_ = golden_.ids("input_ids");
};

// Those whose rope does not depend on the length: then it leaves no trace how a text was cut.
INSTANTIATE_TEST_SUITE_P(Tiny, ForwardTest,
                         ::testing::Values("llama", "qwen2", "qwen3", "phi3", "gemma", "gemma2",
                                           "gemma3_text", "qwen2_rope_yarn"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ForwardTest, ChunksGiveTheSameBits) {
  auto whole_cache = make_cache();
  const auto whole = logits_of(prompt_, *whole_cache);
  for (const size_t chunk : {1u, 5u, 16u}) {
    auto cache = make_cache();
    std::vector<float> logits;
    for (size_t begin = 0; begin < prompt_.size(); begin += chunk) {
      const size_t n = std::min(chunk, prompt_.size() - begin);
      const auto part = logits_of(std::span(prompt_).subspan(begin, n), *cache);
      logits.insert(logits.end(), part.begin(), part.end());
    }
    EXPECT_EQ(logits, whole) << "chunks of " << chunk;
    for (int32_t layer = 0; layer < model_->config().n_layers; ++layer)
      EXPECT_EQ(read_rows(*model_, *cache, layer).key, read_rows(*model_, *whole_cache, layer).key);
  }
}

// Embeddings so small that epsilon is nine tenths of what the norms divide by: 1e-6 in place of
// 1e-5 would treble the values. Attention and MLP add nothing, so the formulas are short.
TEST(ForwardNormTest, EpsilonReachesTheNorms) {
  constexpr double kEps = 1e-5;  // of one_layer_metadata()
  constexpr size_t kHidden = 8;
  std::map<std::string, std::vector<float>> tensors;
  GgufBuilder builder = one_layer_metadata();
  for (const auto& [name, dims] : one_layer_tensors()) {
    const bool silent = name == "blk.0.attn_output.weight" || name == "blk.0.ffn_down.weight";
    const float scale = silent ? 0 : name == "token_embd.weight" ? 1e-3f : 1;
    std::vector<float> values(dims[0] * (dims.size() > 1 ? dims[1] : 1));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = scale * std::sin(static_cast<float>(i + 1));
    builder.tensor(name, dims, GgufBuilder::kF32, std::as_bytes(std::span(values)));
    tensors[std::string(name)] = values;
  }
  const TemporaryFile file(builder.build());
  const auto model = LanguageModel::load(file.path(), {}).value();
  auto cache = model->make_cache(32).value();
  const int32_t id = 3;
  const auto logits = prompt_logits(*model, std::span(&id, 1), *cache);

  const float* x = &tensors["token_embd.weight"][static_cast<size_t>(id) * kHidden];
  double squares = 0;
  for (size_t i = 0; i < kHidden; ++i) squares += static_cast<double>(x[i]) * x[i];
  const double root = std::sqrt(squares / kHidden + kEps);
  ASSERT_LT(squares / kHidden, kEps / 9);
  const auto normed_dot = [&](const std::string& norm, const std::string& matrix, size_t row) {
    double sum = 0;
    for (size_t i = 0; i < kHidden; ++i)
      sum += x[i] / root * tensors[norm][i] * tensors[matrix][row * kHidden + i];
    return sum;
  };
  for (size_t token = 0; token < logits.size(); ++token)
    EXPECT_NEAR(logits[token], normed_dot("output_norm.weight", "token_embd.weight", token), 1e-6);
  const KvRows rows = read_rows(*model, *cache, 0);  // at position 0 nothing turns
  for (size_t i = 0; i < rows.key.size(); ++i) {
    EXPECT_NEAR(rows.key[i], normed_dot("blk.0.attn_norm.weight", "blk.0.attn_k.weight", i), 1e-5);
    EXPECT_NEAR(rows.value[i], normed_dot("blk.0.attn_norm.weight", "blk.0.attn_v.weight", i),
                1e-5);
  }
}

TEST_P(ForwardTest, ThreadsGiveTheSameBits) {
  auto cache = make_cache();
  const auto threaded = load_tiny(GetParam(), 3);
  auto threaded_cache = threaded->make_cache(512).value();
  EXPECT_EQ(prompt_logits(*threaded, prompt_, *threaded_cache), logits_of(prompt_, *cache));
}

TEST_P(ForwardTest, OnlyDistancesBetweenPositionsMatter) {
  auto cache = make_cache();
  auto shifted_cache = make_cache();
  const SequencePlan shifted{.own = {{0, 1000}}, .before = {}, .after = {}};
  EXPECT_LE(
      max_difference(logits_of(prompt_, *cache), logits_of(prompt_, *shifted_cache, &shifted)),
      kLogitTolerance);
}

// A chunk may hold rows of two runs; a gap between them must be felt by the second only.
TEST_P(ForwardTest, RunsHavePositionsOfTheirOwn) {
  auto cache = make_cache();
  auto gap_cache = make_cache();
  const SequencePlan gap{.own = {{0, 0}, {10, 50}}, .before = {}, .after = {}};
  const auto plain = logits_of(prompt_, *cache);
  const auto with_gap = logits_of(prompt_, *gap_cache, &gap);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(max_difference(row(plain, i), row(with_gap, i)), 0);
  EXPECT_GT(max_difference(row(plain, 10), row(with_gap, 10)), 10 * kLogitTolerance);

  auto whole_cache = make_cache();
  const SequencePlan whole{.own = {{0, 50}, {10, 50}}, .before = {}, .after = {}};
  EXPECT_LE(max_difference(plain, logits_of(prompt_, *whole_cache, &whole)), kLogitTolerance);
}

TEST_P(ForwardTest, SilentSegmentLeavesTheSameBits) {
  const std::vector<int32_t> other(prompt_.rbegin(), prompt_.rend());
  auto slave = make_cache();
  logits_of(other, *slave);
  SequencePlan plan{.own = {{0, 0}, {4, 24}}, .before = {}, .after = {}};
  auto alone_cache = make_cache();
  const auto alone = logits_of(prompt_, *alone_cache, &plan);

  ForeignSegment segment = segment_of(*slave, 24, Visibility::kAlways);
  segment.position_offset = 4;
  segment.rotation_shift = 4;
  const size_t n_gains = size_t(model_->config().n_layers) * size_t(model_->config().n_heads);
  plan.before = {segment};
  auto heard_cache = make_cache();
  EXPECT_NE(logits_of(prompt_, *heard_cache, &plan), alone);

  plan.before[0].log_gain.assign(n_gains, kMinusInfinity);
  auto silent_cache = make_cache();
  EXPECT_EQ(logits_of(prompt_, *silent_cache, &plan), alone);
}

TEST_P(ForwardTest, GainsAreThoseOfTheirLayer) {
  auto slave = make_cache();
  logits_of(prompt_, *slave);
  ForeignSegment segment = segment_of(*slave, 24, Visibility::kAlways);
  const auto n_heads = static_cast<size_t>(model_->config().n_heads);
  segment.log_gain.assign(static_cast<size_t>(model_->config().n_layers) * n_heads, 0.0f);
  std::fill_n(segment.log_gain.begin(), n_heads, kMinusInfinity);
  SequencePlan by_gain{.own = {{0, 24}}, .before = {segment}, .after = {}};
  SequencePlan by_absence = by_gain;
  by_absence.before[0].log_gain.clear();
  by_absence.before[0].layers[0].base = nullptr;
  auto gain_cache = make_cache();
  auto absence_cache = make_cache();
  EXPECT_EQ(logits_of(prompt_, *gain_cache, &by_gain),
            logits_of(prompt_, *absence_cache, &by_absence));
}

// A slave reads the first part, the master only the rest.
TEST_P(ForwardTest, PrefixReadElsewhereCountsAsReadHere) {
  constexpr int64_t kPrefix = 15;
  auto whole_cache = make_cache();
  const auto whole = logits_of(prompt_, *whole_cache);
  auto slave = make_cache();
  logits_of(std::span(prompt_).first(kPrefix), *slave);
  const SequencePlan plan{.own = {{0, kPrefix}},
                          .before = {segment_of(*slave, kPrefix, Visibility::kAlways)},
                          .after = {}};
  auto cache = make_cache();
  const auto rest = logits_of(std::span(prompt_).subspan(kPrefix), *cache, &plan);
  const auto expected = std::span(whole).subspan(kPrefix * model_->config().vocab_size);
  EXPECT_LE(max_difference(rest, expected), 1e-4f);
}

// The same, but the slave read it at other positions: the query turns, K stays where it is.
TEST_P(ForwardTest, ShiftedPrefixIsMetByAShiftedQuery) {
  constexpr int64_t kPrefix = 15;
  constexpr int64_t kShift = 200;
  auto whole_cache = make_cache();
  const auto whole = logits_of(prompt_, *whole_cache);
  auto slave = make_cache();
  const SequencePlan far{.own = {{0, kShift}}, .before = {}, .after = {}};
  logits_of(std::span(prompt_).first(kPrefix), *slave, &far);
  ForeignSegment segment = segment_of(*slave, kPrefix, Visibility::kAlways);
  segment.rotation_shift = -kShift;
  const SequencePlan plan{.own = {{0, kPrefix}}, .before = {segment}, .after = {}};
  auto cache = make_cache();
  const auto rest = logits_of(std::span(prompt_).subspan(kPrefix), *cache, &plan);
  const auto expected = std::span(whole).subspan(kPrefix * model_->config().vocab_size);
  EXPECT_LE(max_difference(rest, expected), kLogitTolerance);
}

TEST_P(ForwardTest, ManyQueryRotationsRunInSmallerPieces) {
  auto slave = make_cache();
  logits_of(prompt_, *slave);
  SequencePlan plan{.own = {{0, 24}}, .before = {}, .after = {}};
  for (int64_t shift = 0; shift < 100; ++shift) {
    plan.before.push_back(segment_of(*slave, 24, Visibility::kAlways));
    plan.before.back().rotation_shift = shift;
  }
  auto cache = make_cache();
  const auto together = logits_of(prompt_, *cache, &plan);  // 10 rows at a time
  auto single_cache = make_cache();
  std::vector<float> one_by_one;
  for (const int32_t id : prompt_) {
    const auto logits = logits_of(std::span(&id, 1), *single_cache, &plan);
    one_by_one.insert(one_by_one.end(), logits.begin(), logits.end());
  }
  EXPECT_EQ(together, one_by_one);
}

TEST_P(ForwardTest, AlignedTokensAfterTheLagAreInvisible) {
  constexpr int64_t kChanged = 12;
  const auto logits_with = [&](std::span<const int32_t> slave_ids, int64_t lag) {
    auto slave = make_cache();
    logits_of(slave_ids, *slave);
    ForeignSegment segment = segment_of(*slave, 24, Visibility::kUpTo);
    segment.lag = lag;
    const SequencePlan plan{.own = {{0, 0}}, .before = {}, .after = {segment}};
    auto cache = make_cache();
    return logits_of(prompt_, *cache, &plan);
  };
  auto changed = prompt_;
  changed[kChanged] = (changed[kChanged] + 1) % model_->config().vocab_size;
  for (const int64_t lag : {0, 1, 5}) {
    const auto before = logits_with(prompt_, lag);
    const auto after = logits_with(changed, lag);
    for (int64_t i = 0; i < kChanged + lag; ++i)
      ASSERT_EQ(max_difference(row(before, i), row(after, i)), 0) << "lag " << lag << " row " << i;
    EXPECT_GT(max_difference(row(before, kChanged + lag), row(after, kChanged + lag)), 0);
  }
}

// The rule of lag, written down entry by entry, gives the bits that the lag gives; and a limit on
// the queries is the segment left out from that row on.
TEST_P(ForwardTest, RulesOfEachEntryCountAsTheLagDoes) {
  auto slave = make_cache();
  logits_of(prompt_, *slave);
  const auto logits_with = [&](const ForeignSegment& segment) {
    const SequencePlan plan{.own = {{0, 0}}, .before = {}, .after = {segment}};
    auto cache = make_cache();
    return logits_of(prompt_, *cache, &plan);
  };
  ForeignSegment by_lag = segment_of(*slave, 20, Visibility::kUpTo);
  by_lag.lag = 3;
  std::vector<int64_t> visible_from(20);
  std::iota(visible_from.begin(), visible_from.end(), 3);
  ForeignSegment by_entry = segment_of(*slave, 20, Visibility::kAlways);
  by_entry.visible_from = visible_from;
  const auto expected = logits_with(by_lag);
  EXPECT_EQ(logits_with(by_entry), expected);

  by_entry.visible_until = by_lag.visible_until = 12;
  const auto limited = logits_with(by_entry);
  EXPECT_EQ(limited, logits_with(by_lag));
  for (int64_t i = 0; i < std::ssize(prompt_); ++i) {
    if (i < 12)
      EXPECT_EQ(max_difference(row(limited, i), row(expected, i)), 0) << i;
    else
      EXPECT_GT(max_difference(row(limited, i), row(expected, i)), 0) << i;
  }
  visible_from.pop_back();
  by_entry.visible_from = visible_from;
  const SequencePlan too_short{.own = {{0, 0}}, .before = {}, .after = {by_entry}};
  auto cache = make_cache();
  SequenceRows args;
  args.token_ids = prompt_;
  args.cache = cache.get();
  args.plan = &too_short;
  EXPECT_FALSE(model_->forward().run(args, MatmulPath::kPrefill));
}

// Of the last layer only those rows are computed to the end whose results are wanted, with the
// segments' rules for just these rows.
TEST_P(ForwardTest, RowsThatAreWantedHaveTheBitsThatTheyHaveAmongAll) {
  auto slave = make_cache();
  logits_of(prompt_, *slave);
  ForeignSegment ruled = segment_of(*slave, 24, Visibility::kAlways);
  std::vector<int64_t> visible_from(24);
  std::iota(visible_from.begin(), visible_from.end(), 2);
  ruled.visible_from = visible_from;
  const SequencePlan plan{.own = {{0, 0}}, .before = {}, .after = {ruled}};
  auto whole_cache = make_cache();
  const auto whole = logits_of(prompt_, *whole_cache, &plan);
  for (const int64_t wanted : {0, 1, 5, 24}) {
    auto cache = make_cache();
    SequenceRows args;
    args.token_ids = prompt_;
    args.cache = cache.get();
    args.plan = &plan;
    args.first_logits_row = 24 - wanted;
    const auto logits = model_->forward().run(args, MatmulPath::kPrefill);
    ASSERT_TRUE(logits) << logits.error().message();
    EXPECT_EQ(*logits == nullptr, wanted == 0);
    const int64_t n = wanted * model_->config().vocab_size;
    if (wanted > 0) {
      EXPECT_EQ(to_host(*model_, *logits, n), std::vector<float>(whole.end() - n, whole.end()));
    }
    for (int32_t layer = 0; layer < model_->config().n_layers; ++layer) {
      const KvRows rows = read_rows(*model_, *cache, layer);
      EXPECT_EQ(rows.key, read_rows(*model_, *whole_cache, layer).key);
      EXPECT_EQ(rows.value, read_rows(*model_, *whole_cache, layer).value);
    }
    EXPECT_TRUE(model_->forward().logits(24 - wanted, wanted));
    if (wanted < 24) {
      EXPECT_THAT(model_->forward().logits(23 - wanted, 1).error().what,
                  HasSubstr(fmt::format("of {} to 24", 24 - wanted)));
    }
  }
}

TEST_P(ForwardTest, GateComesAfterTheLayerIsCommitted) {
  auto cache = make_cache();
  std::vector<int32_t> layers;
  const LayerGate gate = [&](int32_t layer) -> Status {
    EXPECT_EQ(cache->committed(layer), std::ssize(prompt_));
    layers.push_back(layer);
    if (layer == 1) return fail(ErrorCode::kLost, "the slave is gone");
    return {};
  };
  SequenceRows args;
  args.token_ids = prompt_;
  args.cache = cache.get();
  args.gate = &gate;
  const auto logits = model_->forward().run(args, MatmulPath::kPrefill);
  ASSERT_FALSE(logits);
  EXPECT_EQ(logits.error().code, ErrorCode::kLost);
  EXPECT_THAT(layers, ::testing::ElementsAre(0, 1));
}

TEST_P(ForwardTest, RefusesWhatItCannotRun) {
  auto cache = make_cache();
  const auto refusal = [&](const SequenceRows& args) {
    const auto logits = model_->forward().run(args, MatmulPath::kPrefill);
    return logits ? std::string() : logits.error().what;
  };
  SequenceRows args;
  args.cache = cache.get();
  EXPECT_THAT(refusal(args), HasSubstr("0 rows"));
  const std::vector<int32_t> too_many(kPrefillGrid + 1, 0);
  args.token_ids = too_many;
  EXPECT_THAT(refusal(args), HasSubstr("513 rows"));
  args.token_ids = std::span(too_many).first(Forward::kMaxLogitsRows + 1);
  EXPECT_THAT(refusal(args), HasSubstr("at most 32 rows"));
  const std::vector<int32_t> outside = {0, model_->config().vocab_size};
  args.token_ids = outside;
  EXPECT_THAT(refusal(args), HasSubstr("outside the vocabulary"));
  args.token_ids = prompt_;
  SequencePlan plan{.own = {{3, 0}}, .before = {}, .after = {}};
  args.plan = &plan;
  EXPECT_THAT(refusal(args), HasSubstr("do not begin at entry 0"));
  plan.own = {{0, 0}};
  plan.before.resize(1);
  EXPECT_THAT(refusal(args), HasSubstr("a segment has 0 layers"));
  args.plan = nullptr;
  args.first_result_row = -1;
  EXPECT_THAT(refusal(args), HasSubstr("results from row -1"));
  args.first_result_row = 0;
  auto full = model_->make_cache(20).value();
  args.cache = full.get();
  EXPECT_THAT(refusal(args), HasSubstr("do not fit a K/V cache of 20"));
  EXPECT_EQ(cache->committed(0), 0);
}

}  // namespace
}  // namespace suture
