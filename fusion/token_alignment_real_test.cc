// Every golden text, growing token by token and byte by byte, between vocabularies in use.
#include "fusion/token_alignment.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "fusion/test_alignment.h"
#include "models/checkpoint.h"
#include "models/test_real_models.h"
#include "models/test_vocabulary.h"

namespace suture {
namespace {

constexpr const char* kModels[] = {"smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct",
                                   "gemma-3-270m"};

std::vector<std::string> golden_texts() {
  std::vector<std::string> texts;
  std::ifstream file(std::string(SUTURE_TEST_DATA_DIR) + "/tokenizer/q05.jsonl");
  for (std::string line; std::getline(file, line);)
    texts.push_back(nlohmann::json::parse(line)["text"].get<std::string>());
  return texts;
}

std::unique_ptr<Tokenizer> open_tokenizer(const char* name) {
  auto checkpoint = Checkpoint::open(real_model_path(name));
  EXPECT_TRUE(checkpoint) << checkpoint.error().message();
  auto made = Tokenizer::create((*checkpoint)->vocabulary().value());
  EXPECT_TRUE(made) << made.error().message();
  return std::move(*made);
}

// Any control token: it ends the text.
int32_t control_of(const Tokenizer& tokenizer) {
  const auto& kinds = tokenizer.vocabulary().kinds;
  return static_cast<int32_t>(std::ranges::find(kinds, TokenKind::kControl) - kinds.begin());
}

class TokenAlignmentRealTest : public testing::TestWithParam<const char*> {};

TEST_P(TokenAlignmentRealTest, GrowthGivesWhatTheWholeTextGives) {
  for (const char* name : kModels) SUTURE_REQUIRE_REAL_MODEL(name);
  const auto slave = open_tokenizer(GetParam());
  const auto texts = golden_texts();
  ASSERT_EQ(texts.size(), 225u);
  std::vector<std::unique_ptr<Tokenizer>> masters;
  for (const char* name : kModels) masters.push_back(open_tokenizer(name));
  masters.push_back(
      Tokenizer::create(make_byte_vocabulary({}, {{"<end>", TokenKind::kControl}})).value());
  int compared = 0;
  for (const auto& master : masters)
    for (const std::string& text : texts)
      ASSERT_NO_FATAL_FAILURE(
          expect_alignment(*master, *slave, text, control_of(*master), compared));
  EXPECT_GE(compared, 220 * std::ssize(masters));
}

INSTANTIATE_TEST_SUITE_P(Slaves, TokenAlignmentRealTest, testing::ValuesIn(kModels),
                         [](const auto& test) { return std::string(test.param).substr(0, 4); });

}  // namespace
}  // namespace suture
