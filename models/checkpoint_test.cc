#include "models/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>

#include "models/test_models.h"

namespace suture {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Checkpoint> open(const std::filesystem::path& path) {
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint) << checkpoint.error().message();
  return checkpoint ? std::move(*checkpoint) : nullptr;
}

std::string refusal(const GgufBuilder& builder) {
  const TemporaryFile file(builder.build());
  const auto checkpoint = Checkpoint::open(file.path());
  return checkpoint ? "" : checkpoint.error().what;
}

std::string unsupported(const GgufBuilder& builder) {
  const TemporaryFile file(builder.build());
  const auto checkpoint = open(file.path());
  return checkpoint == nullptr ? "" : checkpoint->config().unsupported;
}

// A checkpoint folder with the tensors of a tiny model and another configuration.
class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::filesystem::copy(tiny_folder("llama") / "model.safetensors", folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<std::unique_ptr<Checkpoint>> open_with(std::string_view config) {
    std::ofstream(folder_ / "config.json") << config;
    return Checkpoint::open(folder_);
  }

  std::filesystem::path folder_;
};

TEST(CheckpointTest, ReadsTheConfigurationOfAGgufFile) {
  const TemporaryFile file(one_layer_llama().build());
  const auto checkpoint = open(file.path());
  ASSERT_NE(checkpoint, nullptr);
  const ModelConfig& config = checkpoint->config();
  EXPECT_EQ(config.family, Family::kLlama);
  EXPECT_EQ(config.n_layers, 1);
  EXPECT_EQ(config.n_heads, 2);
  EXPECT_EQ(config.n_kv_heads, 1);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.hidden_size, 8);
  EXPECT_EQ(config.ffn_size, 12);
  EXPECT_EQ(config.vocab_size, 5);
  EXPECT_EQ(config.max_positions, 64);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_EQ(config.ropes, (std::vector<RopeSchedule>{{.original_positions = 64}}));
  EXPECT_EQ(config.rope_pairing, RopePairing::kNeighbours);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.kv_dtype, DType::kF32);
  EXPECT_THAT(checkpoint->find("blk.0.ffn_up.weight")->shape, ElementsAre(12, 8));
  EXPECT_EQ(checkpoint->find("blk.1.ffn_up.weight"), nullptr);
  EXPECT_EQ(checkpoint->tensors().size(), one_layer_tensors().size());
  EXPECT_EQ(checkpoint->metadata()[0],
            (std::pair<std::string, std::string>("general.architecture", "'llama'")));
  EXPECT_EQ(checkpoint->file_bytes(), std::filesystem::file_size(file.path()));
}

TEST(CheckpointTest, ReadsTheConfigurationOfAFolder) {
  const auto checkpoint = open(tiny_folder("qwen2"));
  ASSERT_NE(checkpoint, nullptr);
  const ModelConfig& config = checkpoint->config();
  EXPECT_EQ(config.family, Family::kQwen2);
  EXPECT_EQ(config.head_dim, 8);  // not in the file: hidden size / heads
  EXPECT_EQ(config.n_kv_heads, 2);
  EXPECT_EQ(config.ropes.at(0).theta, 1e6f);
  EXPECT_EQ(config.norm_eps, 1e-6f);
  EXPECT_EQ(config.rope_pairing, RopePairing::kHalves);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_NE(checkpoint->find("blk.2.attn_k.bias"), nullptr);
  EXPECT_NE(checkpoint->find("token_embd.weight"), nullptr);
  EXPECT_EQ(checkpoint->vocabulary().error().code, ErrorCode::kNotFound);
}

TEST(CheckpointTest, ReadsTheVocabularyOfAGgufFile) {
  GgufBuilder builder = one_layer_llama();
  builder.text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "qwen2")
      .strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<|end|>"})
      .int32s("tokenizer.ggml.token_type", {1, 1, 4, 3})
      .strings("tokenizer.ggml.merges", {"a b"})
      .u32("tokenizer.ggml.eos_token_id", 3)
      .text("tokenizer.chat_template", "{{ x }}");
  const TemporaryFile file(builder.build());
  const auto vocabulary = open(file.path())->vocabulary();
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->model, "gpt2");
  EXPECT_EQ(vocabulary->pre_tokenizer, "qwen2");
  EXPECT_THAT(vocabulary->pieces, ElementsAre("a", "b", "ab", "<|end|>"));
  EXPECT_THAT(vocabulary->kinds, ElementsAre(TokenKind::kNormal, TokenKind::kNormal,
                                             TokenKind::kUserDefined, TokenKind::kControl));
  EXPECT_THAT(vocabulary->merges, ElementsAre("a b"));
  EXPECT_EQ(vocabulary->eos_id, 3);
  EXPECT_EQ(vocabulary->bos_id, std::nullopt);
  EXPECT_FALSE(vocabulary->add_bos);
  EXPECT_EQ(vocabulary->chat_template, "{{ x }}");
}

TEST(CheckpointTest, RefusesVocabulariesThatContradictThemselves) {
  const auto refused = [](const std::function<void(GgufBuilder&)>& add) {
    GgufBuilder builder = one_layer_llama();
    builder.text("tokenizer.ggml.model", "gpt2");
    add(builder);
    const TemporaryFile file(builder.build());
    const auto vocabulary = open(file.path())->vocabulary();
    return vocabulary ? std::string() : vocabulary.error().what;
  };
  EXPECT_THAT(refused([](GgufBuilder&) {}), HasSubstr("no tokenizer"));
  EXPECT_THAT(refused([](GgufBuilder& b) {
                b.strings(kTokens, {"1", "2", "3", "4", "5", "6"});
              }),
              HasSubstr("6 tokens for an embedding of 5 rows"));
  EXPECT_THAT(refused([](GgufBuilder& b) {
                b.strings(kTokens, {"a"}).int32s("tokenizer.ggml.token_type", {1, 1});
              }),
              HasSubstr("does not hold 1 types"));
  EXPECT_THAT(refused([](GgufBuilder& b) {
                b.strings(kTokens, {"a"}).int32s("tokenizer.ggml.token_type", {7});
              }),
              HasSubstr("unknown type 7"));
  EXPECT_THAT(refused([](GgufBuilder& b) {
                b.strings(kTokens, {"a"}).u32("tokenizer.ggml.eos_token_id", 1);
              }),
              HasSubstr("eos_token_id is 1, expected an id below 1"));
}

TEST(CheckpointTest, RefusesFilesWhoseNumbersCannotBe) {
  GgufBuilder no_architecture;
  no_architecture.u32("llama.block_count", 1);
  EXPECT_THAT(refusal(no_architecture), HasSubstr("'general.architecture' is missing"));
  GgufBuilder no_numbers;
  no_numbers.text("general.architecture", "llama");
  EXPECT_THAT(refusal(no_numbers), HasSubstr("number of layers is 0"));
  GgufBuilder odd = one_layer_metadata();
  odd.u32("llama.attention.key_length", 3);
  EXPECT_THAT(refusal(odd), HasSubstr("head dimension 3 is odd"));
  GgufBuilder theta = one_layer_metadata();
  theta.f32("llama.rope.freq_base", std::nanf(""));
  EXPECT_THAT(refusal(theta), HasSubstr("rope theta is nan"));
}

TEST(CheckpointTest, OpensWhatItCannotRunForInspection) {
  EXPECT_EQ(unsupported(one_layer_metadata("mamba")),
            "architecture 'mamba' is not supported; known: llama, qwen2, qwen3, phi3, gemma, "
            "gemma2, gemma3");
  GgufBuilder scaled = one_layer_llama();
  scaled.text("llama.rope.scaling.type", "xpos");
  EXPECT_EQ(unsupported(scaled),
            "rope scaling 'xpos' is not supported; known: none, linear, dynamic, yarn, llama3, "
            "longrope");
  GgufBuilder unscaled = one_layer_llama();
  unscaled.text("llama.rope.scaling.type", "none");
  EXPECT_EQ(unsupported(unscaled), "");
  GgufBuilder partial = one_layer_llama();
  partial.u32("llama.rope.dimension_count", 2);
  EXPECT_THAT(unsupported(partial), HasSubstr("rotating 2 of 4"));
  GgufBuilder experts = one_layer_llama();
  experts.u32("llama.expert_count", 8);
  EXPECT_THAT(unsupported(experts), HasSubstr("mixtures of experts"));
}

TEST(CheckpointTest, FingerprintFollowsContentNotPath) {
  const auto bytes = one_layer_llama().build();
  const TemporaryFile file(bytes);
  const TemporaryFile copy(bytes);
  auto changed_bytes = bytes;
  changed_bytes.back() ^= std::byte{1};
  const TemporaryFile changed(changed_bytes);
  GgufBuilder other = one_layer_llama();
  other.f32("llama.rope.freq_base", 20000);
  const TemporaryFile other_theta(other.build());
  const std::string fingerprint = open(file.path())->fingerprint();
  EXPECT_EQ(fingerprint.size(), 64u);
  EXPECT_EQ(open(copy.path())->fingerprint(), fingerprint);
  EXPECT_NE(open(changed.path())->fingerprint(), fingerprint);
  EXPECT_NE(open(other_theta.path())->fingerprint(), fingerprint);
}

TEST(CheckpointTest, SaysWhatIsMissing) {
  const auto nothing = Checkpoint::open("/no/such/model.gguf");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kNotFound);
  const auto not_a_model = Checkpoint::open(tiny_folder("llama") / "config.json");
  ASSERT_FALSE(not_a_model);
  EXPECT_EQ(not_a_model.error().code, ErrorCode::kCorrupt);
  const auto empty_folder = Checkpoint::open(tiny_folder("llama").parent_path());
  ASSERT_FALSE(empty_folder);
  EXPECT_THAT(empty_folder.error().what, HasSubstr("has no config.json"));
}

TEST_F(FolderTest, MissingFieldsHaveTheDefaultsOfTheFamily) {
  const auto llama = open_with(R"({"model_type": "llama", "num_key_value_heads": null})");
  ASSERT_TRUE(llama) << llama.error().message();
  EXPECT_EQ((*llama)->config().n_kv_heads, 32);
  EXPECT_EQ((*llama)->config().head_dim, 128);
  EXPECT_EQ((*llama)->config().ffn_size, 11008);
  EXPECT_EQ((*llama)->config().vocab_size, 32000);
  const auto qwen2 = open_with(R"({"model_type": "qwen2"})");
  ASSERT_TRUE(qwen2) << qwen2.error().message();
  EXPECT_EQ((*qwen2)->config().ffn_size, 22016);
  EXPECT_EQ((*qwen2)->config().max_positions, 32768);
}

TEST_F(FolderTest, FamiliesDifferInTheFieldsOfTheConfiguration) {
  const auto config_of = [&](std::string_view text) {
    const auto checkpoint = open_with(text);
    EXPECT_TRUE(checkpoint) << checkpoint.error().message();
    EXPECT_EQ((*checkpoint)->config().unsupported, "");
    return (*checkpoint)->config();
  };
  const ModelConfig gemma = config_of(R"({"model_type": "gemma", "hidden_act": "gelu"})");
  EXPECT_EQ(gemma.activation, Activation::kGeluTanh);
  EXPECT_EQ(gemma.norm_offset, 1);
  EXPECT_TRUE(gemma.tied_embeddings);
  const ModelConfig gemma2 = config_of(R"({"model_type": "gemma2", "num_hidden_layers": 3})");
  EXPECT_EQ(gemma2.score_cap, 50);
  EXPECT_EQ(gemma2.logit_cap, 30);
  EXPECT_EQ(gemma2.attention_scale, 1 / 16.0f);
  EXPECT_THAT(gemma2.layer_rules,
              ElementsAre(LayerRule{4096, 0}, LayerRule{0, 0}, LayerRule{4096, 0}));
  const ModelConfig gemma3 = config_of(R"({"model_type": "gemma3_text", "num_hidden_layers": 6,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0}})");
  EXPECT_EQ(gemma3.layer_rules[4], (LayerRule{4096, kLocalRope}));
  EXPECT_EQ(gemma3.layer_rules[5], (LayerRule{0, kGlobalRope}));
  EXPECT_EQ(gemma3.ropes[kGlobalRope].scaling, RopeScaling::kLinear);
  EXPECT_EQ(gemma3.ropes[kLocalRope].scaling, RopeScaling::kNone);
  const ModelConfig qwen2 = config_of(R"({"model_type": "qwen2", "use_sliding_window": true,
      "num_hidden_layers": 3, "max_window_layers": 1, "sliding_window": 100})");
  EXPECT_THAT(qwen2.layer_rules,
              ElementsAre(LayerRule{0, 0}, LayerRule{100, 0}, LayerRule{100, 0}));
  EXPECT_EQ(config_of(R"({"model_type": "qwen2"})").layer_rules[31], LayerRule{});
  const ModelConfig mistral = config_of(R"({"model_type": "mistral", "sliding_window": null})");
  EXPECT_EQ(mistral.family, Family::kLlama);
  EXPECT_EQ(mistral.n_kv_heads, 8);
  EXPECT_EQ(mistral.layer_rules[0].window, 0);
  EXPECT_EQ(config_of(R"({"model_type": "phi3", "sliding_window": 2047})").layer_rules[0].window,
            2047);
}

// DeepSeek states the attention factor of yarn as a quotient: (0.1 m ln f + 1) / (0.1 a ln f + 1).
TEST_F(FolderTest, YarnMayStateItsAttentionFactor) {
  const auto factor_of = [&](std::string_view more) {
    const auto checkpoint = open_with(fmt::format(
        R"({{"model_type": "llama", "rope_scaling": {{"rope_type": "yarn", "factor": 4.0, {}
            "original_max_position_embeddings": 512}}}})",
        more));
    EXPECT_TRUE(checkpoint) << checkpoint.error().message();
    const ModelConfig& config = (*checkpoint)->config();
    return rope_table(config.ropes.at(0), config.head_dim, 0).attention_factor;
  };
  EXPECT_FLOAT_EQ(factor_of(""), 1.1386294f);
  EXPECT_FLOAT_EQ(factor_of(R"("attention_factor": 0.9,)"), 0.9f);
  EXPECT_FLOAT_EQ(factor_of(R"("mscale": 0.707, "mscale_all_dim": 1.0,)"), 0.96432691f);
}

TEST_F(FolderTest, RefusesValuesOfTheWrongType) {
  const auto text = open_with(R"({"model_type": "llama", "hidden_size": "64"})");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().what, "'hidden_size' is \"64\", expected a whole number");
  const auto negative = open_with(R"({"model_type": "llama", "num_hidden_layers": -1})");
  ASSERT_FALSE(negative);
  EXPECT_THAT(negative.error().what, HasSubstr("'num_hidden_layers' is -1"));
  const auto broken = open_with(R"({"model_type": )");
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().what, HasSubstr("malformed JSON at byte"));
}

TEST_F(FolderTest, NamesFeaturesItCannotRun) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"model_type": "mamba"})", "architecture 'mamba' is not supported; known: llama,"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "xpos"}})", "'xpos'"},
      {R"({"model_type": "qwen2", "rope_scaling": "dynamic"})", "of a form"},
      {R"({"model_type": "llama", "hidden_act": "gelu"})", "activation 'gelu'"},
      {R"({"model_type": "gemma", "hidden_activation": "gelu"})", "activation 'gelu'"},
      {R"({"model_type": "gemma2", "layer_types": ["chunked_attention"]})", "'layer_types'"},
      {R"({"model_type": "phi3", "partial_rotary_factor": 0.75})", "rotating 0.75"},
      {R"({"model_type": "llama", "attention_bias": true})", "biases"},
  };
  for (const auto& [config, reason] : cases) {
    const auto checkpoint = open_with(config);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message();
    EXPECT_THAT((*checkpoint)->config().unsupported, HasSubstr(reason));
  }
}

}  // namespace
}  // namespace suture
