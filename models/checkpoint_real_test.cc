// What the default models' files say about themselves.
#include "models/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/test_real_models.h"

namespace suture {
namespace {

TEST(CheckpointRealTest, ReadsTheConfigurationOfQwen) {
  SUTURE_REQUIRE_REAL_MODEL("qwen2.5-coder-0.5b-instruct");
  const auto checkpoint = Checkpoint::open(real_model_path("qwen2.5-coder-0.5b-instruct"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  const ModelConfig& config = (*checkpoint)->config();
  EXPECT_EQ(config.family, Family::kQwen2);
  EXPECT_EQ(config.kv_shape(), (KvShape{24, 2, 64, DType::kF16}));
  EXPECT_EQ(config.vocab_size, 151936);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ((*checkpoint)->find("token_embd.weight")->dtype, DType::kQ5_0);
}

TEST(CheckpointRealTest, ReadsTheConfigurationOfSmolLm) {
  SUTURE_REQUIRE_REAL_MODEL("smollm2-135m-instruct");
  const auto checkpoint = Checkpoint::open(real_model_path("smollm2-135m-instruct"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  const ModelConfig& config = (*checkpoint)->config();
  EXPECT_EQ(config.family, Family::kLlama);
  EXPECT_EQ(config.rope_pairing, RopePairing::kNeighbours);
  EXPECT_EQ(config.ropes.at(0).theta, 100000);
  EXPECT_TRUE(config.tied_embeddings);
}

// The local theta and which layers have a window are not in the file.
TEST(CheckpointRealTest, ReadsTheConfigurationOfGemma) {
  SUTURE_REQUIRE_REAL_MODEL("gemma-3-270m");
  const auto checkpoint = Checkpoint::open(real_model_path("gemma-3-270m"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  const ModelConfig& config = (*checkpoint)->config();
  EXPECT_EQ(config.family, Family::kGemma3);
  EXPECT_EQ(config.n_layers, 18);
  EXPECT_EQ(config.head_dim, 256);
  ASSERT_EQ(config.ropes.size(), 2u);
  EXPECT_EQ(config.ropes[kGlobalRope].theta, 1e6f);
  EXPECT_EQ(config.ropes[kLocalRope].theta, 1e4f);
  EXPECT_EQ(config.layer_rules[4], (LayerRule{512, kLocalRope}));
  EXPECT_EQ(config.layer_rules[5], (LayerRule{0, kGlobalRope}));
  EXPECT_EQ(config.layer_rules[17], (LayerRule{0, kGlobalRope}));
  EXPECT_EQ(config.attention_scale, 1 / 16.0f);
  EXPECT_FLOAT_EQ(config.embedding_scale, 25.298221f);  // sqrt(640)
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_EQ(config.norm_offset, 0);  // the file stores 1 + w
  const auto vocabulary = (*checkpoint)->vocabulary();
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->pieces.size(), 262144u);
  EXPECT_TRUE(vocabulary->add_bos);
}

}  // namespace
}  // namespace suture
