#include "launcher/transfer/transfer_bound.h"

#include <gtest/gtest.h>

#include "fusion/test_projector.h"

namespace suture {
namespace {

// Two layers, the second of which sees two entries.
ModelConfig config() {
  ModelConfig config;
  config.n_layers = 2;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_dim = 8;
  config.hidden_size = 16;
  config.ffn_size = 48;
  config.vocab_size = 100;
  config.layer_rules = {{.window = 0}, {.window = 2}};
  return config;
}

// By hand. A layer: q and output 16 x 32, k and v 16 x 16, gate, up and down 16 x 48: 3840
// elements.
constexpr double kMatrices = 2 * 3840;
constexpr double kOutput = 16 * 100;

TEST(TransferBoundTest, ReadingIsMatricesAndWhatAttentionSees) {
  // Three tokens see 1 + 2 + 3 entries, and 1 + 2 + 2; each twice 32 elements.
  EXPECT_DOUBLE_EQ(reading_flop(config(), 3), 2 * (3 * kMatrices + kOutput + 2.0 * 32 * (6 + 5)));
  // Two tokens behind five: 6 + 7 entries, and 2 + 2.
  EXPECT_DOUBLE_EQ(reading_flop(config(), 2, 5),
                   2 * (2 * kMatrices + kOutput + 2.0 * 32 * (13 + 4)));
}

TEST(TransferBoundTest, ProjectingIsAProductOfEachMatrix) {
  // Source rows of 16, target rows of 12: windows of 1 and 2, and of 3 and 1 layers.
  const TestProjector projector(DType::kBf16, {{{0}, {0, 1}}, {{0, 1, 2}, {2}}});
  EXPECT_DOUBLE_EQ(projection_flop(projector.value, config(), 5),
                   2.0 * 5 * (1 + 2 + 3 + 1) * 16 * 12);
  // K and V of the target's first layer, and each of the four maps 12 columns more.
  const TestProjector own(DType::kBf16, {{{0}, {0, 1}}, {{0, 1, 2}, {2}}}, small_source(),
                          small_target(), 1, /*own_first_layer=*/true);
  EXPECT_DOUBLE_EQ(
      projection_flop(own.value, config(), 5),
      2.0 * 5 * ((1 + 2 + 3 + 1) * 16 * 12 + 4 * 12 * 12 + 2 * config().hidden_size * 12));
}

TEST(TransferBoundTest, TheBoundIsWhatNeedNotBeComputed) {
  const TestProjector projector(DType::kBf16, {{{0}, {0}}, {{0}, {0}}});
  ModelConfig small = config();
  small.n_layers = 1;
  small.layer_rules = {{}};
  const TransferShape shape{.tokens = 100, .sink = 4, .reread = 6};
  const TransferWork work = transfer_work(small, config(), &projector.value, shape);
  EXPECT_DOUBLE_EQ(work.normal, reading_flop(config(), 100));
  EXPECT_DOUBLE_EQ(work.source, reading_flop(small, 100));
  EXPECT_DOUBLE_EQ(work.projected, projection_flop(projector.value, config(), 90));
  EXPECT_DOUBLE_EQ(work.reread, reading_flop(config(), 4) + reading_flop(config(), 6, 94));
  EXPECT_DOUBLE_EQ(work.bound_with_source(),
                   work.normal / (work.source + work.projected + work.reread));
  EXPECT_DOUBLE_EQ(work.bound_without_source(), work.normal / (work.projected + work.reread));
  EXPECT_EQ(transfer_work(small, small, nullptr, shape).projected, 0);
}

}  // namespace
}  // namespace suture
