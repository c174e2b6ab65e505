#include "models/prompt_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "models/test_models.h"

namespace suture {
namespace {

using ::testing::HasSubstr;
using Chunks = std::vector<std::pair<int64_t, int64_t>>;

class PromptReaderTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    for (int32_t i = 0; i < 700; ++i) ids_.push_back(i * 37 % model_->config().vocab_size);
    args_.token_ids = ids_;
    args_.on_chunk = [this](int64_t begin, int64_t end) -> Status {
      chunks_.emplace_back(begin, end);
      return {};
    };
  }
  std::vector<float> vocab_row(const float* logits) {
    return to_host(*model_, logits, model_->config().vocab_size);
  }

  std::unique_ptr<LanguageModel> model_ = load_tiny(GetParam());
  std::vector<int32_t> ids_;
  PrefillArgs args_;
  Chunks chunks_;
};

INSTANTIATE_TEST_SUITE_P(Tiny, PromptReaderTest,
                         ::testing::Values("llama", "qwen2_rope_dynamic", "phi3_longrope"),
                         [](const auto& test) { return std::string(test.param); });

// Between the steps the model generates tokens of another sequence.
TEST_P(PromptReaderTest, StepsOfAnyGridGiveTheBitsOfOneGo) {
  auto whole_cache = model_->make_cache(1024).value();
  args_.cache = whole_cache.get();
  const auto whole = vocab_row(model_->prefill(args_).value());
  EXPECT_EQ(chunks_, (Chunks{{0, 512}, {512, 700}}));
  chunks_.clear();

  auto other = model_->make_cache(64).value();
  prompt_logits(*model_, std::span(ids_).first(10), *other);
  auto cache = model_->make_cache(1024).value();
  args_.cache = cache.get();
  auto reader = model_->prompt_reader(args_).value();
  const float* logits = nullptr;
  for (const int64_t grid : {128, 100, 512, 64, 128, 512}) {
    ASSERT_FALSE(reader.done());
    EXPECT_EQ(logits, nullptr);
    ASSERT_TRUE(model_->decode(3, *other));
    logits = reader.step(grid).value();
  }
  ASSERT_TRUE(reader.done());
  EXPECT_EQ(chunks_,
            (Chunks{{0, 128}, {128, 200}, {200, 512}, {512, 576}, {576, 640}, {640, 700}}));
  EXPECT_EQ(vocab_row(logits), whole);
  for (int32_t layer = 0; layer < model_->config().n_layers; ++layer) {
    EXPECT_EQ(read_rows(*model_, *cache, layer).key, read_rows(*model_, *whole_cache, layer).key);
    EXPECT_EQ(read_rows(*model_, *cache, layer).value,
              read_rows(*model_, *whole_cache, layer).value);
  }
}

TEST_P(PromptReaderTest, ErrorsOfTheCallbackEndTheStep) {
  auto cache = model_->make_cache(1024).value();
  args_.cache = cache.get();
  args_.on_chunk = [](int64_t begin, int64_t) -> Status {
    if (begin == 128) return fail(ErrorCode::kCancelled, "enough");
    return {};
  };
  auto reader = model_->prompt_reader(args_).value();
  ASSERT_TRUE(reader.step(128));
  const auto second = reader.step(128);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(cache->size(), 128);
}

TEST_P(PromptReaderTest, RefusesStepsThatAreNone) {
  auto cache = model_->make_cache(1024).value();
  EXPECT_EQ(model_->prompt_reader(args_).error().code, ErrorCode::kInvalidArgument);
  args_.cache = cache.get();
  args_.token_ids = std::span(ids_).first(5);
  auto reader = model_->prompt_reader(args_).value();
  for (const int64_t grid : {int64_t{0}, kPrefillGrid + 1})
    EXPECT_THAT(reader.step(grid).error().what, HasSubstr("5 tokens to read"));
  ASSERT_TRUE(reader.step());
  EXPECT_THAT(reader.step().error().what, HasSubstr("0 tokens to read"));
}

}  // namespace
}  // namespace suture
