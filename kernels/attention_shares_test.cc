// Where attention looks: shares of ranges of entries against a softmax in double precision.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "kernels/attention.h"
#include "kernels/test_attention.h"
#include "kernels/test_targets.h"

namespace suture {
namespace {

// The softmax's mass that falls on the ranges of each share, counted entry by entry.
std::vector<double> reference_shares(const Call& call, int64_t row, int32_t head) {
  const std::vector<SeenEntry> seen = seen_entries(call, row, head);
  const std::vector<double> weights = weights_of(seen);
  std::vector<double> shares(static_cast<size_t>(call.args.n_shares));
  for (size_t i = 0; i < weights.size(); ++i)
    for (const AttentionRange& range : call.ranges)
      if (range.segment == seen[i].segment && range.begin <= seen[i].entry &&
          seen[i].entry < range.end)
        shares[static_cast<size_t>(range.share)] += weights[i];
  return shares;
}

std::span<const float> shares_of(const Call& call, int64_t row, int32_t head) {
  const auto n = static_cast<size_t>(call.args.n_shares);
  return std::span(call.shares).subspan(static_cast<size_t>(row * call.args.n_heads + head) * n, n);
}

// Shares agree with the reference, and asking for them leaves the result as it is.
void expect_shares(Call& call) {
  for (const MatmulPath path : kPaths)
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(testing::Message() << (path == MatmulPath::kDecode ? "generated" : "prompt")
                                      << " threads " << threads);
      const std::vector<float> out = call.with(path).run(threads);
      for (int64_t row = 0; row < call.args.n_rows; ++row)
        for (int32_t head = 0; head < call.args.n_heads; ++head) {
          const std::vector<double> expected = reference_shares(call, row, head);
          const std::span<const float> actual = shares_of(call, row, head);
          for (size_t i = 0; i < expected.size(); ++i)
            ASSERT_NEAR(actual[i], expected[i], 1e-5)
                << "row " << row << " head " << head << " share " << i;
        }
      Call alone = call;
      alone.args.n_shares = 0;
      alone.ranges.clear();
      expect_same_bits(alone.run(threads), out);
    }
}

// One share for each segment.
void ask_for_segments(Call& call) {
  call.args.n_shares = static_cast<int32_t>(call.segments.size());
  for (int32_t s = 0; s < call.args.n_shares; ++s) {
    const AttentionSegment& segment = call.segments[static_cast<size_t>(s)];
    call.ranges.push_back({s, segment.begin, segment.end, s});
  }
}

void check_types_and_shapes() {
  struct Shape {
    int32_t n_kv_heads, group, head_dim;
  };
  std::mt19937 random(1);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16})
    for (const Shape s : {Shape{2, 3, 8}, Shape{3, 3, 64}, Shape{2, 7, 80}, Shape{1, 70, 16}}) {
      SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " kv heads " << s.n_kv_heads
                                      << " group " << s.group << " head_dim " << s.head_dim);
      const KvShape shape{1, s.n_kv_heads, s.head_dim, dtype};
      TestSequence own(shape, 261, random), slave(shape, 300, random);
      Call call(shape, s.n_kv_heads * s.group, rising(252, 9), random);
      call.add(own, 0, 261);
      call.add(slave, 10, 300).visibility = Visibility::kAlways;
      ask_for_segments(call);
      // Words: one over the end of a span, one twice, one that no row sees whole.
      call.args.n_shares += 3;
      call.ranges.push_back({1, 250, 262, 2});
      call.ranges.push_back({0, 3, 5, 3});
      call.ranges.push_back({1, 40, 41, 3});
      call.ranges.push_back({0, 255, 261, 4});
      expect_shares(call);
    }
}

TEST(AttentionSharesTest, MatchReferenceForAllTypesAndShapes) {
  for_each_target(check_types_and_shapes);
}

TEST(AttentionSharesTest, MatchReferenceOverManySegmentsAndRules) {
  std::mt19937 random(3);
  const KvShape shape{1, 2, 32, DType::kF16};
  TestSequence own(shape, 330, random), prefix(shape, 700, random), aligned(shape, 320, random);
  Call call(shape, 6, rising(200, 100), random, 3);
  const std::vector<float> gains = {0, -1, -kInfinity, 0.5f, 2, -4};
  std::vector<int32_t> ends;
  for (int32_t row = 0; row < 100; ++row) ends.push_back(6 * row);
  call.args.window = 400;
  call.args.score_cap = 3;
  AttentionSegment& before = call.add(prefix, 5, 611);
  before.visibility = Visibility::kAlways;
  before.row_visible_end = ends.data();
  AttentionSegment& slave = call.add(aligned, 3, 320);
  slave.position_offset = -4;
  slave.lag = 1;
  slave.query_variant = 2;
  slave.log_gain = gains.data();
  call.add(own, 0, 40).query_variant = 1;
  call.add(own, 40, 300);
  ask_for_segments(call);
  ++call.args.n_shares;
  call.ranges.push_back({0, 500, 520, 4});
  call.ranges.push_back({3, 250, 260, 4});
  expect_shares(call);
}

TEST(AttentionSharesTest, OfAllSegmentsTheyAddUpToOne) {
  std::mt19937 random(4);
  const KvShape shape{1, 1, 16, DType::kF16};
  TestSequence own(shape, 3000, random), slave(shape, 900, random);
  Call call(shape, 2, rising(2990, 10), random);
  call.args.scale = 2;  // large scores: most of the mass is on few entries
  call.add(own, 0, 3000);
  call.add(slave, 0, 900).visibility = Visibility::kAlways;
  ask_for_segments(call);
  expect_shares(call);
  for (int64_t row = 0; row < 10; ++row)
    for (int32_t head = 0; head < 2; ++head) {
      const std::span<const float> shares = shares_of(call, row, head);
      EXPECT_NEAR(shares[0] + shares[1], 1, 1e-6);
    }
}

TEST(AttentionSharesTest, WhatIsSwitchedOffOrUnseenHasNone) {
  std::mt19937 random(5);
  const KvShape shape{1, 1, 16, DType::kF16};
  TestSequence own(shape, 64, random), slave(shape, 64, random);
  Call call(shape, 2, {-1, 5}, random);  // the first row sees nothing
  call.add(own, 0, 64);
  const std::vector<float> gains(2, -kInfinity);
  call.add(slave, 0, 64).log_gain = gains.data();
  ask_for_segments(call);
  for (const MatmulPath path : kPaths) {
    call.with(path).run();
    for (int32_t head = 0; head < 2; ++head) {
      EXPECT_EQ(shares_of(call, 0, head)[0], 0);
      EXPECT_EQ(shares_of(call, 0, head)[1], 0);
      EXPECT_EQ(shares_of(call, 1, head)[0], 1);
      EXPECT_EQ(shares_of(call, 1, head)[1], 0);
    }
  }
}

TEST(AttentionSharesTest, RefuseRangesOutsideTheContract) {
  std::mt19937 random(6);
  const KvShape shape{1, 2, 16, DType::kF16};
  TestSequence own(shape, 32, random);
  Call call(shape, 4, rising(0, 4), random);
  call.add(own, 0, 32);
  std::vector<float> out(static_cast<size_t>(4 * call.row_width())), shares(4 * 4 * 2);
  const auto is_refused = [&](auto change) {
    AttentionRange range{0, 0, 32, 1};
    AttentionArgs args = call.args;
    args.query = call.query.data();
    args.positions = call.positions.data();
    args.out = out.data();
    args.segments = call.segments;
    args.shares = shares.data();
    args.n_shares = 2;
    change(args, range);
    args.ranges = std::span(&range, 1);
    const Status status = attention(*cpu_stream(1), args);
    return !status && status.error().code == ErrorCode::kInvalidArgument;
  };
  EXPECT_FALSE(is_refused([](auto&, auto&) {}));
  EXPECT_TRUE(is_refused([](auto& args, auto&) { args.n_shares = -1; }));
  EXPECT_TRUE(is_refused([](auto& args, auto&) { args.n_shares = kMaxAttentionShares + 1; }));
  EXPECT_TRUE(is_refused([](auto& args, auto&) { args.shares = nullptr; }));
  EXPECT_TRUE(is_refused([](auto&, auto& range) { range.segment = 1; }));
  EXPECT_TRUE(is_refused([](auto&, auto& range) { range.segment = -1; }));
  EXPECT_TRUE(is_refused([](auto&, auto& range) { range.share = 2; }));
  EXPECT_TRUE(is_refused([](auto&, auto& range) { range.share = -1; }));
  EXPECT_TRUE(is_refused([](auto&, auto& range) { range.begin = INT64_MIN; }));
  EXPECT_TRUE(is_refused([](auto&, auto& range) { range.end = INT64_MAX; }));
}

}  // namespace
}  // namespace suture
