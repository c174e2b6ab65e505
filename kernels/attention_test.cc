#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "kernels/test_attention.h"
#include "kernels/test_targets.h"

namespace suture {
namespace {

// Every type and many shapes of heads, on the instruction set in use.
void check_types_and_shapes() {
  struct Shape {
    int32_t n_kv_heads, group, head_dim;
  };
  std::mt19937 random(1);
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    for (Shape s : {Shape{2, 3, 8}, Shape{1, 1, 12}, Shape{3, 3, 64}, Shape{2, 7, 80},
                    Shape{2, 1, 96}, Shape{1, 6, 128}, Shape{1, 5, 256}, Shape{1, 70, 16}}) {
      SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " kv heads " << s.n_kv_heads
                                      << " group " << s.group << " head_dim " << s.head_dim);
      const KvShape shape{1, s.n_kv_heads, s.head_dim, dtype};
      TestSequence own(shape, 261, random);
      Call call(shape, s.n_kv_heads * s.group, rising(252, 9), random);
      call.add(own, 0, 261);
      expect_reference(call);
    }
  }
}

TEST(AttentionTest, MatchesReferenceForAllTypesAndShapes) {
  for_each_target(check_types_and_shapes);
}

TEST(AttentionTest, MatchesReferenceOverLongHistory) {
  std::mt19937 random(2);
  const KvShape shape{1, 2, 64, DType::kF16};
  TestSequence own(shape, 2000, random);
  for (int32_t n_rows : {1, 5}) {
    Call call(shape, 14, rising(2000 - n_rows, n_rows), random);
    call.add(own, 0, 2000);
    expect_reference(call, 3);
  }
}

TEST(AttentionTest, MatchesReferenceOverManySegments) {
  std::mt19937 random(3);
  const KvShape shape{1, 2, 32, DType::kF16};
  TestSequence own(shape, 330, random), prefix(shape, 700, random), aligned(shape, 320, random);
  Call call(shape, 6, rising(200, 100), random, 3);
  const std::vector<float> gains = {0, -1, -kInfinity, 0.5f, 2, -4};
  call.add(prefix, 5, 611).visibility = Visibility::kAlways;
  AttentionSegment& slave = call.add(aligned, 3, 320);
  slave.position_offset = -4;
  slave.lag = 1;
  slave.query_variant = 2;
  slave.log_gain = gains.data();
  AttentionSegment& head = call.add(own, 0, 40);
  head.query_variant = 1;
  call.add(own, 40, 300);
  expect_reference(call);
}

TEST(AttentionTest, WindowAndScoreCapMatchReference) {
  std::mt19937 random(4);
  const KvShape shape{1, 2, 64, DType::kBf16};
  TestSequence own(shape, 600, random), prefix(shape, 300, random);
  Call call(shape, 4, rising(500, 100), random);
  call.args.scale = 1;  // large scores, so that the cap matters
  call.args.score_cap = 5;
  call.args.window = 270;
  AttentionSegment& before = call.add(prefix, 0, 300);
  before.visibility = Visibility::kAlways;
  before.position_offset = 200;
  call.add(own, 0, 600);
  expect_reference(call);
}

TEST(AttentionTest, RowsThatSeeNothingAreZero) {
  std::mt19937 random(5);
  const KvShape shape{1, 1, 16, DType::kF16};
  TestSequence own(shape, 64, random);
  Call call(shape, 2, {-1, 0, 5}, random);
  AttentionSegment& segment = call.add(own, 0, 64);
  segment.lag = 1;
  const std::vector<float> out = call.run();
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(out[i]), 0u);
  expect_reference(call);
  call.segments.clear();
  for (float x : call.run()) EXPECT_EQ(std::bit_cast<uint32_t>(x), 0u);
}

TEST(AttentionTest, InfinitelyNegativeGainIsTheSegmentNotListed) {
  std::mt19937 random(6);
  const KvShape shape{1, 2, 64, DType::kF16};
  TestSequence own(shape, 400, random), slave(shape, 400, random);
  for (const MatmulPath path : kPaths) {
    for (int32_t n_rows : {1, 40}) {
      Call call(shape, 6, rising(400 - n_rows, n_rows), random);
      call.with(path).add(own, 0, 400);
      const std::vector<float> alone = call.run();
      const std::vector<float> gains(6, -kInfinity);
      call.add(slave, 0, 400).log_gain = gains.data();
      expect_same_bits(alone, call.run());
      std::swap(call.segments[0], call.segments[1]);
      expect_same_bits(alone, call.run());
    }
  }
}

TEST(AttentionTest, GainOfOneHeadLeavesTheOthersUntouched) {
  std::mt19937 random(7);
  const KvShape shape{1, 1, 64, DType::kF16};
  TestSequence own(shape, 100, random), slave(shape, 100, random);
  Call call(shape, 3, rising(90, 10), random);
  call.add(own, 0, 100);
  const std::vector<float> alone = call.run();
  const std::vector<float> gains = {-kInfinity, 0, -kInfinity};
  call.add(slave, 0, 100).log_gain = gains.data();
  const std::vector<float> stitched = call.run();
  for (size_t row = 0; row < 10; ++row) {
    for (size_t head = 0; head < 3; ++head) {
      const size_t at = (row * 3 + head) * 64;
      const auto bits = [at](const std::vector<float>& rows) {
        return std::as_bytes(std::span(rows).subspan(at, 64));
      };
      const bool same = std::ranges::equal(bits(alone), bits(stitched));
      EXPECT_EQ(same, head != 1) << "row " << row << " head " << head;
    }
  }
}

TEST(AttentionTest, EntriesAfterTheLagLeaveNoTrace) {
  std::mt19937 random(8);
  const KvShape shape{1, 2, 64, DType::kF16};
  constexpr int64_t kLag = 3, kChanged = 200;  // entry 200 first takes part for the query at 203
  for (int variant = 0; variant < 6; ++variant) {
    const float change = variant / 2 == 0 ? 1.5f : variant / 2 == 1 ? kNan : kInfinity;
    TestSequence own(shape, 300, random), slave(shape, 300, random);
    Call call(shape, 8, rising(150, 100), random);
    call.with(kPaths[variant % 2]).add(own, 0, 300);
    call.add(slave, 0, 300).lag = kLag;
    const std::vector<float> before = call.run();
    for (int64_t i = kChanged * slave.width(); i < 300 * slave.width(); ++i) {
      slave.key[static_cast<size_t>(i)] = change;
      slave.value[static_cast<size_t>(i)] = change;
    }
    slave.write(kChanged, 300);
    const std::vector<float> after = call.run();
    const size_t width = static_cast<size_t>(call.row_width());
    for (size_t row = 0; row < 100; ++row) {
      const bool same =
          std::memcmp(&before[row * width], &after[row * width], width * sizeof(float)) == 0;
      EXPECT_EQ(same, call.positions[row] < kChanged + kLag) << "row " << row;
    }
  }
}

TEST(AttentionTest, RowsHaveVisibleEndsOfTheirOwn) {
  std::mt19937 random(11);
  const KvShape shape{1, 2, 16, DType::kF16};
  TestSequence own(shape, 700, random), other(shape, 700, random);
  Call call(shape, 4, rising(660, 40), random);
  std::vector<int32_t> ends;  // nothing, part of a span, whole spans, beyond the segment
  for (int32_t row = 0; row < 40; ++row) ends.push_back(row < 3 ? row - 1 : 20 * row);
  call.add(own, 0, 700);
  AttentionSegment& limited = call.add(other, 5, 690);
  limited.visibility = Visibility::kAlways;
  limited.row_visible_end = ends.data();
  expect_reference(call);
  limited.visibility = Visibility::kUpTo;  // both rules at once
  limited.lag = 150;
  call.args.window = 300;
  expect_reference(call);
  const auto whole = call.run();
  auto parts = call.run_rows(0, 7);
  const auto rest = call.run_rows(7, 40);
  parts.insert(parts.end(), rest.begin(), rest.end());
  expect_same_bits(whole, parts);
}

// Rows in one call, in several, and by any number of threads.
void check_chunks_and_threads(int32_t n_kv_heads, int32_t head_dim, MatmulPath path) {
  std::mt19937 random(9);
  const KvShape shape{1, n_kv_heads, head_dim, DType::kF16};
  TestSequence own(shape, 900, random), prefix(shape, 500, random);
  Call call(shape, n_kv_heads * 3, rising(777, 123), random);
  call.args.window = 800;
  call.with(path).add(prefix, 0, 500).visibility = Visibility::kAlways;
  call.add(own, 0, 900);
  const std::vector<float> all = call.run(1);
  expect_same_bits(all, call.run(2));
  expect_same_bits(all, call.run(5));
  for (int64_t chunk : {1, 2, 50}) {
    std::vector<float> joined;
    for (int64_t row = 0; row < 123; row += chunk) {
      const auto part = call.run_rows(row, std::min<int64_t>(row + chunk, 123));
      joined.insert(joined.end(), part.begin(), part.end());
    }
    expect_same_bits(all, joined);
  }
}

TEST(AttentionTest, RowsDoNotDependOnChunksOrThreads) {
  for (const MatmulPath path : kPaths) {
    for (int32_t n_kv_heads : {1, 3}) {
      check_chunks_and_threads(n_kv_heads, 64, path);
      check_chunks_and_threads(n_kv_heads, 20, path);
    }
  }
}

// More spans than are listed, and merged, at a time.
TEST(AttentionTest, HistoriesOfManySpansAreMergedInPortions) {
  std::mt19937 random(13);
  const KvShape shape{1, 1, 8, DType::kF16};
  TestSequence own(shape, 20000, random);
  for (const MatmulPath path : kPaths) {
    Call call(shape, 2, rising(19990, 10), random);
    call.with(path).add(own, 0, 20000);
    expect_reference_on(call, 2);
    const std::vector<float> all = call.run(2);
    expect_same_bits(all, call.run(1));
    std::vector<float> joined;
    for (int64_t row = 0; row < 10; ++row) {
      const auto part = call.run_rows(row, row + 1);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    expect_same_bits(all, joined);
  }
}

TEST(AttentionTest, GrowingHistoryLeavesEarlierRowsUntouched) {
  std::mt19937 random(10);
  const KvShape shape{1, 2, 64, DType::kF16};
  TestSequence own(shape, 700, random);
  for (const MatmulPath path : kPaths) {
    Call call(shape, 4, rising(200, 60), random);
    call.with(path).add(own, 0, 260);
    const std::vector<float> early = call.run();
    call.segments[0].end = 700;
    expect_same_bits(early, call.run());
  }
}

TEST(AttentionTest, TwoSegmentsAgreeWithOne) {
  std::mt19937 random(11);
  const KvShape shape{1, 2, 128, DType::kF16};
  TestSequence own(shape, 500, random);
  Call call(shape, 12, rising(460, 40), random);
  call.add(own, 0, 500);
  const std::vector<float> one = call.run();
  for (int64_t split : {1, 100, 256, 499}) {
    call.segments.clear();
    call.add(own, 0, split);
    call.add(own, split, 500);
    const std::vector<float> two = call.run();
    for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], two[i], 2e-6) << "split " << split;
  }
}

TEST(AttentionTest, RefusesArgumentsOutsideTheContract) {
  std::mt19937 random(12);
  const KvShape shape{1, 2, 16, DType::kF16};
  TestSequence own(shape, 32, random);
  Call call(shape, 4, rising(0, 4), random);
  call.add(own, 0, 32);
  std::vector<float> out(static_cast<size_t>(4 * call.row_width()));
  const auto code = [&](auto change) {
    AttentionArgs args = call.args;
    std::vector<AttentionSegment> segments = call.segments;
    args.query = call.query.data();
    args.positions = call.positions.data();
    args.out = out.data();
    args.segments = segments;
    change(args, segments[0]);
    const Status status = attention(*cpu_stream(1), args);
    return status.has_value() ? -1 : static_cast<int>(status.error().code);
  };
  const int invalid = static_cast<int>(ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](auto&, auto&) {}), -1);
  EXPECT_EQ(code([](auto& args, auto&) { args.n_heads = 3; }), invalid);
  EXPECT_EQ(code([](auto& args, auto&) { args.n_rows = -1; }), invalid);
  EXPECT_EQ(code([](auto& args, auto&) { args.query = nullptr; }), invalid);
  EXPECT_EQ(code([](auto& args, auto&) { args.shape.dtype = DType::kQ8_0; }), invalid);
  EXPECT_EQ(code([](auto& args, auto&) { args.shape.head_dim = 6; }), invalid);
  EXPECT_EQ(code([](auto& args, auto&) { args.shape.n_kv_heads = 0; }), invalid);
  EXPECT_EQ(code([](auto& args, auto&) { args.scale = kNan; }), invalid);
  EXPECT_EQ(code([](auto& args, auto&) { args.window = -1; }), invalid);
  EXPECT_EQ(code([](auto&, auto& segment) { segment.begin = 33; }), invalid);
  EXPECT_EQ(code([](auto&, auto& segment) { segment.query_variant = 1; }), invalid);
  EXPECT_EQ(code([](auto&, auto& segment) { segment.kv.base = nullptr; }), invalid);
  EXPECT_EQ(code([](auto&, auto& segment) { segment.lag = INT64_MIN; }), invalid);
}

}  // namespace
}  // namespace suture
