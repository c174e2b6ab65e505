// What the default models' files say about themselves.
#include "models/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/test_real_models.h"
#include "models/weights.h"

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

// Its family is not built yet: the file can be looked at, and is refused by name when it should
// run.
TEST(CheckpointRealTest, GemmaCanBeInspectedAndIsRefusedByName) {
  SUTURE_REQUIRE_REAL_MODEL("gemma-3-270m");
  const auto checkpoint = Checkpoint::open(real_model_path("gemma-3-270m"));
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_EQ((*checkpoint)->config().n_layers, 18);
  EXPECT_EQ((*checkpoint)->config().head_dim, 256);
  const auto vocabulary = (*checkpoint)->vocabulary();
  ASSERT_TRUE(vocabulary) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->pieces.size(), 262144u);
  EXPECT_TRUE(vocabulary->add_bos);
  const auto device = open_device("cpu", 1).value();
  const auto weights = load_weights(**checkpoint, *device);
  ASSERT_FALSE(weights);
  EXPECT_EQ(weights.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(weights.error().what, ::testing::HasSubstr("'gemma3' is not supported yet"));
}

}  // namespace
}  // namespace suture
