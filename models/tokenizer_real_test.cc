// The vocabularies of the default models against token ids from llama.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/chat_format.h"
#include "models/checkpoint.h"
#include "models/test_real_models.h"
#include "models/tokenizer.h"

namespace suture {
namespace {

struct RealModel {
  const char* name;
  const char* golden;  // file in tests/data/tokenizer
  const char* system;  // nullptr: no chat template
};

std::ostream& operator<<(std::ostream& out, const RealModel& model) { return out << model.name; }

class TokenizerRealTest : public testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    SUTURE_REQUIRE_REAL_MODEL(GetParam().name);
    auto checkpoint = Checkpoint::open(real_model_path(GetParam().name));
    ASSERT_TRUE(checkpoint) << checkpoint.error().message();
    auto vocabulary = (*checkpoint)->vocabulary();
    ASSERT_TRUE(vocabulary) << vocabulary.error().message();
    auto tokenizer = Tokenizer::create(std::move(*vocabulary));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    tokenizer_ = std::move(*tokenizer);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(TokenizerRealTest, IdsMatchLlamaCppOnEveryGoldenLine) {
  std::ifstream file(std::string(SUTURE_TEST_DATA_DIR) + "/tokenizer/" + GetParam().golden);
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const auto golden = nlohmann::json::parse(line);
    const auto special =
        golden.value("special", false) ? SpecialTokens::kParse : SpecialTokens::kAsText;
    EXPECT_EQ(tokenizer_->encode(golden["text"].get<std::string>(), special),
              golden["ids"].get<std::vector<int32_t>>())
        << golden["text"];
  }
  EXPECT_EQ(lines, 225);
}

// Each text comes byte by byte, as while it is generated.
TEST_P(TokenizerRealTest, NoTokenBeforeTheStableEndChanges) {
  std::ifstream file(std::string(SUTURE_TEST_DATA_DIR) + "/tokenizer/" + GetParam().golden);
  for (std::string line; std::getline(file, line);) {
    const auto text = nlohmann::json::parse(line)["text"].get<std::string>();
    const auto all = tokenizer_->encode(text, SpecialTokens::kAsText);
    size_t stable = 0;
    for (size_t length = 0; length <= text.size(); ++length) {
      const std::string_view so_far = std::string_view(text).substr(0, length);
      const size_t end = tokenizer_->stable_end(so_far);
      ASSERT_GE(end, stable) << so_far;
      ASSERT_LE(end, length);
      if (end == stable) continue;
      stable = end;
      const auto ids = tokenizer_->encode(so_far.substr(0, end), SpecialTokens::kAsText);
      ASSERT_LE(ids.size(), all.size());
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), all.begin())) << so_far;
    }
  }
}

TEST_P(TokenizerRealTest, StableEndFollowsOrdinaryText) {
  const std::string text =
      "In 1905 four papers changed physics, didn't they? The first one (on light) was read by "
      "few.\n"
      "Er ging nach Hause. \u4E2D\u6587\u5F88\u597D\u3002 for (int i = 0; i < n; ++i) sum += x[i];";
  for (size_t length = 0; length <= text.size(); ++length) {
    const size_t end = tokenizer_->stable_end(std::string_view(text).substr(0, length));
    EXPECT_LE(length - end, 16u) << text.substr(0, length);
  }
}

TEST_P(TokenizerRealTest, StreamedPiecesAreTheText) {
  const std::string text = "The caf\u00E9 at 7: \u4E2D\u6587, \U0001F600\n\tend  ";
  StreamingDecoder decoder(*tokenizer_);
  std::string streamed;
  for (int32_t id : tokenizer_->encode(text, SpecialTokens::kAsText)) {
    streamed += decoder.push(id);
    ASSERT_TRUE(text.starts_with(streamed)) << streamed;
  }
  EXPECT_EQ(streamed + decoder.finish(), text);
}

// A quadratic algorithm would need hours for these.
TEST_P(TokenizerRealTest, MegabytesWithoutABreakAreEncoded) {
  for (const char* unit : {" ", "\n", "a", "\U0001F600", "\xFF"}) {
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    const auto ids = tokenizer_->encode(text, SpecialTokens::kAsText);
    EXPECT_LE(tokenizer_->stable_end(text), text.size());
    // One of the models has no token for the byte FF and leaves it out.
    EXPECT_EQ(tokenizer_->decode(ids), unit[0] == '\xFF' && ids.empty() ? "" : text);
  }
}

TEST_P(TokenizerRealTest, TurnsEndAndTheTemplateIsChatml) {
  if (GetParam().system == nullptr) GTEST_SKIP() << "a base model without a chat template";
  const auto end = tokenizer_->encode("<|im_end|>", SpecialTokens::kParse);
  ASSERT_EQ(end.size(), 1u);
  EXPECT_TRUE(tokenizer_->is_end(end[0]));
  const auto format = ChatFormat::detect(tokenizer_->vocabulary());
  ASSERT_TRUE(format) << format.error().message();
  EXPECT_EQ(format->name, "chatml");
  EXPECT_EQ(format->default_system, GetParam().system);
}

constexpr const char* kQwenSystem =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
constexpr RealModel kModels[] = {
    {"smollm2-135m-instruct", "smol.jsonl",
     "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
    {"qwen2.5-coder-0.5b-instruct", "q05.jsonl", kQwenSystem},
    {"qwen2.5-coder-1.5b-instruct", "q15.jsonl", kQwenSystem},
    {"gemma-3-270m", "gemma.jsonl", nullptr},
};

INSTANTIATE_TEST_SUITE_P(DefaultModels, TokenizerRealTest, testing::ValuesIn(kModels),
                         [](const auto& test) {
                           std::string name = test.param.golden;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace suture
