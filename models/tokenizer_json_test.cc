#include "models/tokenizer_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "models/json_text.h"
#include "models/tokenizer.h"

namespace suture {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

json read_data(const std::string& name) {
  std::ifstream file(SUTURE_TEST_DATA_DIR "/tokenizers/" + name);
  return json::parse(file);
}

std::unique_ptr<Tokenizer> make_tokenizer(const json& root) {
  auto vocabulary = parse_tokenizer_json(root, "tokenizer.json");
  EXPECT_TRUE(vocabulary) << vocabulary.error().message();
  auto tokenizer = Tokenizer::create(std::move(*vocabulary));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message();
  return std::move(*tokenizer);
}

// Tokenizers of each kind, and what the tokenizers library makes of some texts with them:
// tests/data/tokenizers/make_tokenizers.py.
class TokenizerJsonKindTest : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Tokenizer> tokenizer_ =
      make_tokenizer(read_data(GetParam() + std::string(".json")));
  json golden_ = read_data(GetParam() + std::string(".ids.json"));
};

TEST_P(TokenizerJsonKindTest, IdsAreThoseOfTheTokenizersLibrary) {
  ASSERT_GT(golden_.size(), 40u);
  for (const auto& line : golden_)
    EXPECT_EQ(tokenizer_->encode(line[0].get<std::string>(), SpecialTokens::kParse),
              line[1].get<Ids>())
        << line[0];
}

TEST_P(TokenizerJsonKindTest, NoTokenBeforeTheStableEndChanges) {
  for (const auto& line : golden_) {
    const auto text = line[0].get<std::string>();
    const Ids all = tokenizer_->encode(text, SpecialTokens::kAsText);
    size_t stable = 0;
    for (size_t length = 0; length <= text.size(); ++length) {
      const size_t end = tokenizer_->stable_end(std::string_view(text).substr(0, length));
      ASSERT_GE(end, stable) << text;
      if (end == stable) continue;
      stable = end;
      const Ids ids =
          tokenizer_->encode(std::string_view(text).substr(0, end), SpecialTokens::kAsText);
      ASSERT_LE(ids.size(), all.size());
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), all.begin())) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerJsonKindTest,
                         testing::Values("qwen2", "llama3", "smollm", "gpt2", "llama2", "gemma",
                                         "metaspace_first", "metaspace_always"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TokenizerJsonTest, AddedTokensAreControlOrUserDefined) {
  const auto vocabulary = parse_tokenizer_json(read_data("llama2.json"), "tokenizer.json");
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->model, "llama");
  const auto kind_of = [&](const char* piece) {
    const auto found = std::ranges::find(vocabulary->pieces, piece);
    return vocabulary->kinds[static_cast<size_t>(found - vocabulary->pieces.begin())];
  };
  EXPECT_EQ(kind_of("<unk>"), TokenKind::kUnknown);
  EXPECT_EQ(kind_of("<s>"), TokenKind::kControl);
  EXPECT_EQ(kind_of("<|end|>"), TokenKind::kControl);
  EXPECT_EQ(kind_of("<tool>"), TokenKind::kUserDefined);
  EXPECT_EQ(kind_of("<0x0A>"), TokenKind::kByte);
  EXPECT_EQ(vocabulary->unk_id, 0);
}

TEST(TokenizerJsonTest, GapsBetweenIdsAreNamed) {
  json root = read_data("gpt2.json");
  const auto last = root["added_tokens"].size() - 1;
  const uint32_t id = root["added_tokens"][last]["id"];
  root["added_tokens"][last]["id"] = id + 2;
  const auto vocabulary = parse_tokenizer_json(root, "tokenizer.json");
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->pieces[id], "[PAD" + std::to_string(id) + "]");
  EXPECT_EQ(vocabulary->kinds[id], TokenKind::kUnused);
}

TEST(TokenizerJsonTest, OldAndNewWayOfMergesAreTheSame) {
  json root = read_data("gpt2.json");
  const auto expected = parse_tokenizer_json(root, "tokenizer.json");
  for (json& merge : root["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  EXPECT_EQ(parse_tokenizer_json(root, "tokenizer.json")->merges, expected->merges);
}

struct Change {
  const char* file;
  const char* where;  // JSON pointer
  const char* value;
  ErrorCode code;
  const char* what;
};

TEST(TokenizerJsonTest, WhatIsNotKnownIsRefusedByName) {
  constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;
  constexpr ErrorCode kCorrupt = ErrorCode::kCorrupt;
  const Change changes[] = {
      {"gpt2", "/model/type", R"("Unigram")", kUnsupported, "Unigram"},
      {"gpt2", "/model/type", R"("WordPiece")", kUnsupported, "WordPiece"},
      {"gpt2", "/model/end_of_word_suffix", R"("</w>")", kUnsupported, "</w>"},
      {"gpt2", "/normalizer", R"({"type":"Lowercase"})", kUnsupported, "Lowercase"},
      {"gpt2", "/pre_tokenizer", R"({"type":"Whitespace"})", kUnsupported, "Whitespace"},
      {"gpt2", "/pre_tokenizer", "null", kUnsupported, "pre_tokenizer"},
      {"qwen2", "/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("(a+)+b")", kUnsupported,
       "(a+)+b"},
      {"gpt2", "/pre_tokenizer/pretokenizers/0/add_prefix_space", "true", kUnsupported,
       "add_prefix_space"},
      {"gpt2", "/added_tokens/0/lstrip", "true", kUnsupported, "lstrip"},
      {"llama2", "/normalizer", R"({"type":"Precompiled"})", kUnsupported, "Precompiled"},
      {"metaspace_first", "/pre_tokenizer/split", "true", kUnsupported, "Metaspace"},
      {"metaspace_first", "/pre_tokenizer", "null", kCorrupt, "U+2581"},
      {"gpt2", "/model", "3", kCorrupt, "model"},
      {"gpt2", "/model/vocab", "[]", kCorrupt, "model.vocab"},
      {"gpt2", "/model/vocab/a", "-1", kCorrupt, "model.vocab"},
      {"gpt2", "/model/vocab/a", "2147483647", kCorrupt, "2147483647"},
      {"gpt2", "/model/vocab/a", "1", kCorrupt, "both have the id 1"},
      {"gpt2", "/model/merges", "{}", kCorrupt, "model.merges"},
      {"gpt2", "/model/merges/0", R"(["a"])", kCorrupt, "model.merges"},
      {"gpt2", "/model/merges/0", R"(["a b","c"])", kCorrupt, "model.merges"},
      {"gpt2", "/added_tokens/0/content", "7", kCorrupt, "added_tokens"},
      {"llama2", "/model/vocab/<0x0A>", "100000", kCorrupt, "100000"},
  };
  for (const Change& change : changes) {
    json root = read_data(change.file + std::string(".json"));
    root[json::json_pointer(change.where)] = json::parse(change.value);
    const auto vocabulary = parse_tokenizer_json(root, "tokenizer.json");
    ASSERT_FALSE(vocabulary) << change.where << " " << change.value;
    EXPECT_EQ(vocabulary.error().code, change.code) << vocabulary.error().message();
    EXPECT_NE(vocabulary.error().what.find(change.what), std::string::npos)
        << vocabulary.error().message();
  }
}

TEST(TokenizerJsonTest, EveryByteNeedsATokenWhereBytesAreTheFallback) {
  json root = read_data("llama2.json");
  root["model"]["vocab"].erase("<0x0A>");
  const auto vocabulary = parse_tokenizer_json(root, "tokenizer.json");
  ASSERT_FALSE(vocabulary);
  EXPECT_NE(vocabulary.error().what.find("255 byte tokens"), std::string::npos);
}

TEST(TokenizerJsonTest, MergeThatFormsNoTokenIsRefusedWhereBytesAreTheFallback) {
  json root = read_data("llama2.json");
  root["model"]["merges"].push_back({"a", "<0x0A>"});
  auto vocabulary = parse_tokenizer_json(root, "tokenizer.json");
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  const auto tokenizer = Tokenizer::create(std::move(*vocabulary));
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kCorrupt);
}

// Never more than an error, whatever the damage.
TEST(TokenizerJsonTest, DamagedFilesAreErrorsOrOtherTokenizers) {
  std::mt19937 random(11);
  for (const char* name : {"qwen2", "llama2"}) {
    const std::string valid = read_data(std::string(name) + ".json").dump();
    for (int round = 0; round < 300; ++round) {
      std::string text = valid;
      // Most of the file is vocabulary; the rules are in its first part.
      const size_t reach = round % 2 == 0 ? text.size() : 1500;
      for (int change = 0; change < 3; ++change)
        text[random() % reach] = "{}[]\",:0189-tfn"[random() % 15];
      if (round % 5 == 0) text.resize(random() % text.size());
      const auto root = parse_json(text, "tokenizer.json");
      if (!root) continue;
      auto vocabulary = parse_tokenizer_json(*root, "tokenizer.json");
      if (!vocabulary) continue;
      EXPECT_LT(vocabulary->pieces.size(), 70000u);
      const auto tokenizer = Tokenizer::create(std::move(*vocabulary));
      if (tokenizer) (*tokenizer)->encode("A text, 12 words.", SpecialTokens::kParse);
    }
  }
}

}  // namespace
}  // namespace suture
