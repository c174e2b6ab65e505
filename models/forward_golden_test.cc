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

}  // namespace
}  // namespace suture
