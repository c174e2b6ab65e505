#include "models/first_layer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/test_models.h"

namespace suture {
namespace {

constexpr float kTolerance = 1e-4f;  // of the reference values, as for all K and V
constexpr int64_t kMaxRows = 64;

// Rows [n][width] of [n_kv_heads][n][head_dim].
std::vector<float> by_row(const std::vector<float>& by_head, const ModelConfig& config) {
  const auto dim = static_cast<size_t>(config.head_dim);
  const auto heads = static_cast<size_t>(config.n_kv_heads);
  const size_t n = by_head.size() / (heads * dim);
  std::vector<float> rows;
  for (size_t row = 0; row < n; ++row)
    for (size_t head = 0; head < heads; ++head) {
      const auto at = by_head.begin() + static_cast<std::ptrdiff_t>((head * n + row) * dim);
      rows.insert(rows.end(), at, at + static_cast<std::ptrdiff_t>(dim));
    }
  return rows;
}

class FirstLayerTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    layer_ = FirstLayer::create(model_->checkpoint(), model_->device(), model_->stream(), kMaxRows)
                 .value();
  }

  // K and V of the tokens, one behind the other.
  std::pair<std::vector<float>, std::vector<float>> rows(std::span<const int32_t> ids,
                                                         MatmulPath path = MatmulPath::kPrefill) {
    const ModelConfig& config = model_->config();
    std::vector<float> key(ids.size() * static_cast<size_t>(config.n_kv_heads * config.head_dim));
    std::vector<float> value(key.size());
    const Status done = layer_->rows(ids, path, key.data(), value.data());
    EXPECT_TRUE(done) << done.error().message();
    return {key, value};
  }

  std::unique_ptr<LanguageModel> model_ = load_tiny(GetParam());
  std::unique_ptr<FirstLayer> layer_;
  Golden golden_{GetParam()};
  std::vector<int32_t> prompt_ = golden_.ids("input_ids");
};

INSTANTIATE_TEST_SUITE_P(Tiny, FirstLayerTest,
                         ::testing::Values("llama", "qwen2", "qwen3", "phi3", "gemma", "gemma2",
                                           "gemma3_text"),
                         [](const auto& test) { return std::string(test.param); });

// The reference has K rotated, which changes nothing at position 0.
TEST_P(FirstLayerTest, RowsAreThoseOfTheReference) {
  const auto [key, value] = rows(prompt_);
  EXPECT_LE(max_difference(value, by_row(golden_.floats("v.0"), model_->config())), kTolerance);
  const std::vector<float> rotated = by_row(golden_.floats("k.0"), model_->config());
  const size_t width = key.size() / prompt_.size();
  EXPECT_LE(max_difference(std::span(key).first(width), std::span(rotated).first(width)),
            kTolerance);
}

// Every token as the first of a text.
TEST_P(FirstLayerTest, KeysAreThoseOfTheModelBeforeItTurnsThem) {
  const auto [keys, values] = rows(prompt_);
  const size_t width = keys.size() / prompt_.size();
  for (size_t i = 0; i < prompt_.size(); ++i) {
    const auto cache = model_->make_cache(1).value();
    prompt_logits(*model_, std::span(prompt_).subspan(i, 1), *cache);
    EXPECT_LE(max_difference(std::span(keys).subspan(i * width, width),
                             by_row(read_rows(*model_, *cache, 0).key, model_->config())),
              kTolerance)
        << "token " << i;
  }
}

TEST_P(FirstLayerTest, ARowHasTheSameBitsInEveryBatch) {
  for (const MatmulPath path : {MatmulPath::kPrefill, MatmulPath::kDecode}) {
    const auto [keys, values] = rows(prompt_, path);
    const size_t width = keys.size() / prompt_.size();
    for (const size_t i : {size_t{0}, prompt_.size() - 1}) {
      const auto [key, value] = rows(std::span(prompt_).subspan(i, 1), path);
      EXPECT_TRUE(std::ranges::equal(key, std::span(keys).subspan(i * width, width)));
      EXPECT_TRUE(std::ranges::equal(value, std::span(values).subspan(i * width, width)));
    }
  }
}

TEST_P(FirstLayerTest, RefusesTokensThatTheModelDoesNotHaveAndTooManyRows) {
  std::vector<float> key(1 << 16), value(1 << 16);
  for (const int32_t id : {-1, model_->config().vocab_size}) {
    const auto refused =
        layer_->rows(std::span(&id, 1), MatmulPath::kPrefill, key.data(), value.data());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
  const std::vector<int32_t> many(kMaxRows + 1);
  EXPECT_FALSE(layer_->rows(many, MatmulPath::kPrefill, key.data(), value.data()));
}

TEST(FirstLayerWeightsTest, SaysWhatIsMissing) {
  const auto model = load_tiny("llama");
  const TemporaryFile file(one_layer_llama("blk.0.attn_k.weight").build());
  const auto checkpoint = Checkpoint::open(file.path()).value();
  const auto layer = FirstLayer::create(*checkpoint, model->device(), model->stream(), 1);
  ASSERT_FALSE(layer);
  EXPECT_NE(layer.error().what.find("blk.0.attn_k.weight"), std::string::npos);
}

// Of a model that runs no further; whoever runs it will say so.
TEST(FirstLayerWeightsTest, LooksAtNoOtherTensor) {
  const auto model = load_tiny("llama");
  const TemporaryFile file(one_layer_llama("blk.0.ffn_up.weight").build());
  const auto checkpoint = Checkpoint::open(file.path()).value();
  EXPECT_TRUE(FirstLayer::create(*checkpoint, model->device(), model->stream(), 1));
}

}  // namespace
}  // namespace suture
