// Every tiny model against the reference: prompt, K and V of every layer, greedy decoding.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "models/test_models.h"

namespace suture {
namespace {

constexpr float kLogitTolerance = 1e-3f;  // of the reference values
constexpr float kKvTolerance = 1e-4f;

struct Case {
  const char* folder;
  const char* file = "golden";
};

std::ostream& operator<<(std::ostream& out, const Case& item) {
  return out << item.folder << "_" << item.file;
}

class ForwardGoldenTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kCapacity = 128;

  std::span<const float> row(const std::vector<float>& logits, size_t index) const {
    const auto vocab = static_cast<size_t>(model_->config().vocab_size);
    return std::span(logits).subspan(index * vocab, vocab);
  }

  std::unique_ptr<LanguageModel> model_ = load_tiny(GetParam().folder);
  Golden golden_{GetParam().folder, GetParam().file};
  std::vector<int32_t> prompt_ = golden_.ids("input_ids");
};

INSTANTIATE_TEST_SUITE_P(
    Tiny, ForwardGoldenTest,
    ::testing::Values(Case{"llama"}, Case{"llama_rope_llama3"}, Case{"qwen2"},
                      Case{"qwen2_rope_dynamic"}, Case{"qwen2_rope_dynamic", "golden_short"},
                      Case{"qwen2_rope_yarn"}, Case{"qwen3"}, Case{"phi3"}, Case{"phi3_longrope"},
                      Case{"phi3_longrope", "golden_short"}, Case{"gemma"}, Case{"gemma2"},
                      Case{"gemma2", "golden_short"}, Case{"gemma3_text"},
                      Case{"gemma3_text", "golden_short"}),
    [](const auto& test) { return fmt::format("{}_{}", test.param.folder, test.param.file); });

TEST_P(ForwardGoldenTest, PromptMatchesTheReference) {
  auto cache = model_->make_cache(kCapacity).value();
  const auto logits = prompt_logits(*model_, prompt_, *cache);
  EXPECT_LE(max_difference(logits, golden_.floats("logits")), kLogitTolerance);
  for (int32_t layer = 0; layer < model_->config().n_layers; ++layer) {
    const KvRows rows = read_rows(*model_, *cache, layer);
    EXPECT_LE(max_difference(rows.key, golden_.floats(fmt::format("k.{}", layer))), kKvTolerance);
    EXPECT_LE(max_difference(rows.value, golden_.floats(fmt::format("v.{}", layer))), kKvTolerance);
  }
}

// Cached rows keep their rotation.
TEST_P(ForwardGoldenTest, GreedyDecodingMatchesTheReference) {
  auto cache = model_->make_cache(kCapacity).value();
  const auto expected_ids = golden_.ids("greedy_ids");
  const auto expected_logits = golden_.floats("decode_logits");
  PrefillArgs args;
  args.token_ids = prompt_;
  args.cache = cache.get();
  auto logits = model_->prefill(args);
  for (size_t step = 0; step < expected_ids.size(); ++step) {
    ASSERT_TRUE(logits) << logits.error().message();
    const auto host = to_host(*model_, *logits, model_->config().vocab_size);
    EXPECT_LE(max_difference(host, row(expected_logits, step)), kLogitTolerance) << "step " << step;
    const auto best = std::max_element(host.begin(), host.end()) - host.begin();
    ASSERT_EQ(best, expected_ids[step]) << "step " << step;
    logits = model_->decode(static_cast<int32_t>(best), *cache);
  }
}

// Two of them in one pass, one of which is always a token ahead.
TEST_P(ForwardGoldenTest, GreedyDecodingInABatchMatchesTheReference) {
  const auto expected_ids = golden_.ids("greedy_ids");
  const auto expected_logits = golden_.floats("decode_logits");
  const std::unique_ptr<KvCache> caches[] = {model_->make_cache(kCapacity).value(),
                                             model_->make_cache(kCapacity).value()};
  for (const auto& cache : caches) prompt_logits(*model_, prompt_, *cache);
  ASSERT_TRUE(model_->decode(expected_ids[0], *caches[1]));
  for (size_t step = 0; step + 2 < expected_ids.size(); ++step) {
    const DecodeItem items[] = {{expected_ids[step], caches[0].get()},
                                {expected_ids[step + 1], caches[1].get()}};
    const auto answers = model_->decode_batch(items);
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(answers[i]) << answers[i].error().message();
      const auto host = to_host(*model_, *answers[i], model_->config().vocab_size);
      EXPECT_LE(max_difference(host, row(expected_logits, step + i + 1)), kLogitTolerance)
          << "step " << step << " sequence " << i;
    }
  }
}

// The sequence is read again as a new stream whenever the rope's tables change.
class RereadGoldenTest : public ForwardGoldenTest {};

INSTANTIATE_TEST_SUITE_P(
    Tiny, RereadGoldenTest,
    ::testing::Values(Case{"qwen2_rope_dynamic"}, Case{"qwen2_rope_dynamic", "golden_short"},
                      Case{"phi3_longrope"}, Case{"phi3_longrope", "golden_short"}),
    [](const auto& test) { return fmt::format("{}_{}", test.param.folder, test.param.file); });

TEST_P(RereadGoldenTest, GreedyDecodingMatchesTheReference) {
  auto cache = model_->make_cache(kCapacity).value();
  const auto expected_ids = golden_.ids("recompute_greedy_ids");
  const auto expected_logits = golden_.floats("recompute_logits");
  std::vector<int32_t> ids = prompt_;
  const auto read_all = [&] {
    cache = model_->make_cache(kCapacity).value();
    PrefillArgs args;
    args.token_ids = ids;
    args.cache = cache.get();
    return model_->prefill(args);
  };
  auto logits = read_all();
  int n_rereads = 0;
  for (size_t step = 0; step < expected_ids.size(); ++step) {
    ASSERT_TRUE(logits) << logits.error().message();
    const auto host = to_host(*model_, *logits, model_->config().vocab_size);
    EXPECT_LE(max_difference(host, row(expected_logits, step)), kLogitTolerance) << "step " << step;
    const auto best = std::max_element(host.begin(), host.end()) - host.begin();
    ASSERT_EQ(best, expected_ids[step]) << "step " << step;
    ids.push_back(static_cast<int32_t>(best));
    const bool stays = model_->rotated_for(*cache, std::ssize(ids));
    n_rereads += stays ? 0 : 1;
    logits = stays ? model_->decode(ids.back(), *cache) : read_all();
  }
  // Dynamic: every token above the limit; longrope: once, where the limit is crossed.
  const int64_t above = std::min<int64_t>(16, std::ssize(ids) - 32);
  const bool dynamic = model_->config().ropes[0].scaling == RopeScaling::kDynamic;
  EXPECT_EQ(n_rereads, dynamic ? above : std::ssize(prompt_) <= 32 ? 1 : 0);
}

// With one length for all, neither the prompt's length nor a limit on the way changes anything.
TEST(RopeLengthTest, FixesTheTablesForEveryLength) {
  const auto model =
      LanguageModel::load(tiny_folder("qwen2_rope_dynamic"), {.rope_length = 48}).value();
  const Golden golden("qwen2_rope_dynamic");
  const auto ids = golden.ids("input_ids");
  auto cache = model->make_cache(64).value();
  const auto first = prompt_logits(*model, std::span(ids).first(10), *cache);
  const auto rest = prompt_logits(*model, std::span(ids).subspan(10), *cache);
  // Its prompt has 48 tokens, so the reference used the table of 48 too.
  const auto expected = golden.floats("logits");
  EXPECT_LE(max_difference(first, std::span(expected).first(first.size())), kLogitTolerance);
  EXPECT_LE(max_difference(rest, std::span(expected).subspan(first.size())), kLogitTolerance);
  EXPECT_TRUE(model->rotated_for(*cache, 1000));
  const auto plain = load_tiny("qwen2_rope_dynamic");
  EXPECT_NE(model->fingerprint(), plain->fingerprint());
}

// The same numbers as those of the file, given from outside.
TEST(RopeScalingTest, OverridesWhatTheFileSays) {
  LoadOptions options;
  options.rope_scaling = RopeScalingOverride{RopeScaling::kNone, 1, 0};
  const auto plain = LanguageModel::load(tiny_folder("qwen2_rope_yarn"), options).value();
  options.rope_scaling = RopeScalingOverride{RopeScaling::kYarn, 4, 32};
  const auto yarn = LanguageModel::load(tiny_folder("qwen2_rope_yarn"), options).value();
  const Golden golden("qwen2_rope_yarn");
  const auto ids = golden.ids("input_ids");
  const auto expected = golden.floats("logits");
  auto yarn_cache = yarn->make_cache(64).value();
  auto plain_cache = plain->make_cache(64).value();
  EXPECT_LE(max_difference(prompt_logits(*yarn, ids, *yarn_cache), expected), kLogitTolerance);
  EXPECT_GT(max_difference(prompt_logits(*plain, ids, *plain_cache), expected), 0.1f);
  options.rope_scaling = RopeScalingOverride{RopeScaling::kLongrope, 4, 32};
  const auto without_tables = LanguageModel::load(tiny_folder("qwen2_rope_yarn"), options);
  ASSERT_FALSE(without_tables);
  EXPECT_NE(without_tables.error().what.find("short factors"), std::string::npos);
}

}  // namespace
}  // namespace suture
