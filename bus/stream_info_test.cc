#include "bus/stream_info.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace suture {
namespace {

StreamInfo full_info() {
  StreamInfo info;
  info.model_fingerprint = "sha256:0123456789abcdef";
  info.shape = KvShape{.n_layers = 28, .n_kv_heads = 2, .head_dim = 8, .dtype = DType::kF16};
  info.rope_pairing = RopePairing::kNeighbours;
  RopeSchedule longrope;
  longrope.scaling = RopeScaling::kLongrope;
  longrope.theta = 1e6f;
  longrope.factor = 4;
  longrope.original_positions = 4096;
  longrope.attention_factor = 1.2f;
  longrope.short_factors = {1, 1.5f, 2, 3};
  longrope.long_factors = {2, 4, 8, 16};
  longrope.fixed_length = 8192;
  RopeSchedule yarn;
  yarn.scaling = RopeScaling::kYarn;
  yarn.original_positions = 32;
  yarn.factor = 8;
  yarn.beta_fast = 16;
  yarn.beta_slow = 2;
  yarn.low_freq_factor = 3;
  yarn.high_freq_factor = 5;
  info.ropes = {longrope, yarn};
  info.layer_ropes.assign(28, 0);
  info.layer_ropes[5] = 1;
  info.token_ids = {151644, 8948, 198, 0};
  info.text_offsets = {3, 9, 9, uint64_t{1} << 40};
  info.visibility = {PositionRule::kAligned, 3};
  return info;
}

TEST(StreamInfoTest, RoundTrip) {
  const StreamInfo info = full_info();
  const auto decoded = decode_stream_info(encode_stream_info(info));
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(*decoded, info);
}

TEST(StreamInfoTest, EmptyListsRoundTrip) {
  StreamInfo info;
  info.shape = full_info().shape;
  const auto decoded = decode_stream_info(encode_stream_info(info));
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(*decoded, info);
}

TEST(StreamInfoTest, LongTextsRoundTrip) {
  StreamInfo info = full_info();
  info.token_ids.assign(1 << 20, 7);
  info.text_offsets.assign(1 << 20, 9);
  const auto decoded = decode_stream_info(encode_stream_info(info));
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(*decoded, info);
}

TEST(StreamInfoTest, ContradictionsAreRefusedByBothSides) {
  const auto refused = [](auto change) {
    StreamInfo info = full_info();
    change(info);
    const auto status = validate(info);
    const auto decoded = decode_stream_info(encode_stream_info(info));
    return !status && status.error().code == ErrorCode::kInvalidArgument && !decoded &&
           decoded.error().code == ErrorCode::kCorrupt;
  };
  EXPECT_TRUE(refused([](StreamInfo& i) { i.shape.n_layers = 0; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.shape.n_kv_heads = -2; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.shape.head_dim = 1 << 30; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.shape.dtype = DType::kQ4_K; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.ropes[1].scaling = static_cast<RopeScaling>(6); }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.ropes[1].theta = NAN; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.ropes[1].original_positions = 0; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.ropes[0].short_factors.pop_back(); }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.ropes[0].long_factors[2] = 0; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.ropes[0].attention_factor = INFINITY; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.ropes[0].fixed_length = -1; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.ropes.assign(2000, i.ropes[1]); }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.layer_ropes.pop_back(); }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.layer_ropes[3] = 2; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.layer_ropes[3] = -1; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.token_ids[1] = -5; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.text_offsets.pop_back(); }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.text_offsets[0] = 10; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.visibility.lag = -1; }));
  EXPECT_TRUE(refused([](StreamInfo& i) { i.model_fingerprint.assign(5000, 'x'); }));
}

TEST(StreamInfoTest, EveryTruncationIsRefused) {
  const std::vector<std::byte> bytes = encode_stream_info(full_info());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = decode_stream_info(std::span(bytes).first(size));
    EXPECT_FALSE(decoded) << size;
  }
}

TEST(StreamInfoTest, DamagedMessagesNeverCrash) {
  const std::vector<std::byte> bytes = encode_stream_info(full_info());
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> damaged = bytes;
    for (int i = 0; i < 1 + round % 4; ++i)
      damaged[random() % damaged.size()] = static_cast<std::byte>(random() % 256);
    const auto decoded = decode_stream_info(damaged);
    if (decoded) {
      EXPECT_TRUE(validate(*decoded));
    } else {
      EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace suture
