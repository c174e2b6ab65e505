#include "launcher/bench/engine_work.h"

#include <gtest/gtest.h>

#include "models/language_model.h"

namespace suture {
namespace {

// Sums by hand from the config.json of the models, which are all float32.
EngineWork work_of(const std::string& name) {
  const auto model =
      LanguageModel::load(std::string(SUTURE_TEST_DATA_DIR) + "/tiny/" + name, {}).value();
  return {model->config(), model->weights()};
}

// Hidden 64, MLP 112, 4 heads of 16, 2 of K/V, 3 layers, 256 tokens: of each layer 64x64 (q, out),
// 32x64 (k, v) and 112x64 (gate, up, down), and an output matrix of its own.
constexpr double kLlamaLayers = 3 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 112 * 64);
constexpr double kLlamaOutput = 256 * 64;

TEST(EngineWorkTest, AGeneratedTokenReadsEveryMatrixAndItsHistory) {
  const EngineWork work = work_of("llama");
  const double row = 2 * 2 * 16 * 4;  // K and V of 2 heads
  EXPECT_EQ(work.kv_bytes(0), 3 * row);
  EXPECT_EQ(work.kv_bytes(9), 3 * 10 * row);
  EXPECT_EQ(work.decode_bytes(9), 4 * (kLlamaLayers + kLlamaOutput) + 3 * 10 * row);
  EXPECT_EQ(work.decode_bytes(9, 3), work.decode_bytes(10));  // of 9, 10 and 11
}

TEST(EngineWorkTest, APromptMultipliesEachTokenWithAllButTheOutputMatrix) {
  const EngineWork work = work_of("llama");
  const double entries = 3 * (1 + 2);             // seen by two tokens in three layers
  const double attention = 2 * entries * 4 * 16;  // q.k and p.v
  EXPECT_EQ(work.prefill_flop(2), 2 * (2 * kLlamaLayers + kLlamaOutput + attention));
}

TEST(EngineWorkTest, LayersWithAWindowReadNoMoreThanThat) {
  const EngineWork work = work_of("gemma2");  // a window of 8 in every second of 4 layers
  const double row = 2 * 2 * 16 * 4;
  EXPECT_EQ(work.kv_bytes(20), (2 * 8 + 2 * 21) * row);
  EXPECT_EQ(work.kv_bytes(3), 4 * 4 * row);
}

TEST(EngineWorkTest, AnEmbeddingTableCountsWhereItIsTheOutput) {
  const EngineWork work = work_of("gemma2");
  const double layers = 4 * (2 * 64 * 48 + 2 * 32 * 48 + 3 * 96 * 48);
  EXPECT_EQ(work.decode_bytes(0), 4 * (layers + 384 * 48) + work.kv_bytes(0));
}

}  // namespace
}  // namespace suture
