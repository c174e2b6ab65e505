#include "models/hf_tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "models/tokenizer.h"

namespace suture {
namespace {

// A folder with the tokenizer.json of tests/data/tokenizers/llama3.json: 422 pieces and the added
// tokens <|end|>, <tool> and </tool>.
class HfTokenizerTest : public testing::Test {
 protected:
  HfTokenizerTest() {
    std::filesystem::create_directory(folder_);
    std::filesystem::copy(SUTURE_TEST_DATA_DIR "/tokenizers/llama3.json",
                          folder_ / "tokenizer.json");
  }
  ~HfTokenizerTest() override { std::filesystem::remove_all(folder_); }

  void write(const char* name, std::string_view text) const {
    std::ofstream(folder_ / name) << text;
  }
  Vocabulary read(int32_t rows = 500) const {
    auto vocabulary = read_hf_vocabulary(folder_, rows);
    EXPECT_TRUE(vocabulary) << vocabulary.error().message();
    return std::move(*vocabulary);
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                  ("suture-hf-tokenizer-" + std::to_string(::getpid()));
};

constexpr int32_t kEnd = 422;
constexpr int32_t kTool = 423;

TEST_F(HfTokenizerTest, WithoutOtherFilesThereAreNoSpecialIds) {
  const Vocabulary vocabulary = read();
  EXPECT_EQ(vocabulary.pieces[kEnd], "<|end|>");
  EXPECT_FALSE(vocabulary.bos_id || vocabulary.eos_id || vocabulary.add_bos);
  EXPECT_EQ(vocabulary.chat_template, "");
}

TEST_F(HfTokenizerTest, RowsWithoutATokenAreNamedAsInGgufFiles) {
  EXPECT_EQ(read().pieces.size(), 500u);
  EXPECT_EQ(read().pieces[499], "[PAD499]");
  EXPECT_EQ(read().kinds[499], TokenKind::kUnused);
  EXPECT_EQ(read(2'000'000'000).pieces.size(), 425u);
  const auto few = read_hf_vocabulary(folder_, 424);
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().code, ErrorCode::kCorrupt);
}

TEST_F(HfTokenizerTest, SpecialTokensAreNamesOrObjectsOrIds) {
  write("tokenizer_config.json",
        R"({"bos_token":"<|end|>","eos_token":{"content":"<tool>"},"add_bos_token":true})");
  EXPECT_EQ(read().bos_id, kEnd);
  EXPECT_EQ(read().eos_id, kTool);
  EXPECT_TRUE(read().add_bos);
  write("tokenizer_config.json", R"({"bos_token":null,"eos_token":7})");
  write("special_tokens_map.json", R"({"eos_token":"</tool>"})");
  write("config.json", R"({"bos_token_id":422,"eos_token_id":423})");
  EXPECT_EQ(read().bos_id, kEnd);
  EXPECT_EQ(read().eos_id, kTool + 1);
  EXPECT_FALSE(read().add_bos);
}

TEST_F(HfTokenizerTest, GenerationEndsAtEveryIdThatIsListed) {
  write("generation_config.json", R"({"eos_token_id":[65,424,99999,-1,"x"]})");
  EXPECT_EQ(read().eos_id, 65);
  const auto tokenizer = Tokenizer::create(read());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_TRUE((*tokenizer)->is_end(65));
  EXPECT_TRUE((*tokenizer)->is_end(424));
  EXPECT_FALSE((*tokenizer)->is_end(66));
}

TEST_F(HfTokenizerTest, PostProcessorMayPutBosInFront) {
  write("tokenizer_config.json", R"({"bos_token":"<|end|>"})");
  EXPECT_FALSE(read().add_bos);
  std::ifstream file(folder_ / "tokenizer.json");
  std::string text(std::istreambuf_iterator<char>(file), {});
  const std::string before = R"("post_processor":null)";
  ASSERT_NE(text.find(before), std::string::npos);
  text.replace(text.find(before), before.size(),
               R"("post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},)"
               R"({"single":[{"SpecialToken":{"id":"<|end|>","type_id":0}}]}]})");
  write("tokenizer.json", text);
  EXPECT_TRUE(read().add_bos);
}

TEST_F(HfTokenizerTest, ChatTemplateIsTextOrOneOfSeveralOrAFile) {
  write("tokenizer_config.json", R"({"chat_template":"one"})");
  EXPECT_EQ(read().chat_template, "one");
  write("tokenizer_config.json",
        R"({"chat_template":[{"name":"tools","template":"two"},3,)"
        R"({"name":"default","template":"three"},{"name":"x","template":"four"}]})");
  EXPECT_EQ(read().chat_template, "three");
  write("chat_template.jinja", "five");
  EXPECT_EQ(read().chat_template, "five");
}

TEST_F(HfTokenizerTest, DamagedFilesAreErrors) {
  write("tokenizer_config.json", R"(["a"])");
  EXPECT_FALSE(read_hf_vocabulary(folder_, 500));
  write("tokenizer_config.json", R"({"chat_template":{"a":1},"bos_token":[1],"add_bos_token":2})");
  EXPECT_TRUE(read_hf_vocabulary(folder_, 500));
  write("tokenizer.json", "{");
  EXPECT_FALSE(read_hf_vocabulary(folder_, 500));
  std::filesystem::remove(folder_ / "tokenizer.json");
  const auto missing = read_hf_vocabulary(folder_, 500);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace suture
