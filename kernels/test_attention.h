// Helpers of the attention tests: a call together with the memory it refers to, and the formula in
// the head of attention.h in double precision.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/test_kv.h"

namespace suture {

inline constexpr MatmulPath kPaths[] = {MatmulPath::kPrefill, MatmulPath::kDecode};
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A call together with the memory it refers to.
struct Call {
  Call(const KvShape& shape, int32_t n_heads, std::vector<int32_t> row_positions,
       std::mt19937& random, int32_t n_variants = 1)
      : positions(std::move(row_positions)) {
    args.n_rows = std::ssize(positions);
    args.n_variants = n_variants;
    args.n_heads = n_heads;
    args.shape = shape;
    args.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    query = random_values(random, n_variants * args.n_rows * row_width());
  }

  int64_t row_width() const { return static_cast<int64_t>(args.n_heads) * args.shape.head_dim; }

  AttentionSegment& add(TestSequence& sequence, int64_t begin, int64_t end) {
    sequences.push_back(&sequence);
    return segments.emplace_back(
        AttentionSegment{.kv = sequence.view(), .begin = begin, .end = end});
  }

  Call& with(MatmulPath path) {
    args.path = path;
    return *this;
  }

  std::vector<float> run(int threads = 2) { return run_rows(0, args.n_rows, threads); }

  // Rows [begin, end) in one call.
  std::vector<float> run_rows(int64_t begin, int64_t end, int threads = 2) {
    std::vector<float> rows;
    for (int32_t v = 0; v < args.n_variants; ++v) {
      const float* first = query.data() + (v * args.n_rows + begin) * row_width();
      rows.insert(rows.end(), first, first + (end - begin) * row_width());
    }
    std::vector<float> out(static_cast<size_t>((end - begin) * row_width()), kNan);
    AttentionArgs part = args;
    part.query = rows.data();
    part.positions = positions.data() + begin;
    part.n_rows = end - begin;
    part.out = out.data();
    std::vector<AttentionSegment> part_segments = segments;
    for (AttentionSegment& segment : part_segments)
      if (segment.row_visible_end != nullptr) segment.row_visible_end += begin;
    part.segments = part_segments;
    shares.assign(static_cast<size_t>(part.n_rows * args.n_heads * args.n_shares), kNan);
    part.shares = args.n_shares > 0 ? shares.data() : nullptr;
    part.ranges = ranges;
    const Status status = attention(*cpu_stream(threads), part);
    EXPECT_TRUE(status.has_value()) << status.error().message();
    return out;
  }

  AttentionArgs args;
  std::vector<int32_t> positions;
  std::vector<float> query;
  std::vector<AttentionSegment> segments;
  std::vector<const TestSequence*> sequences;  // of the segments
  std::vector<AttentionRange> ranges;          // of args.n_shares
  std::vector<float> shares;                   // of the last run
};

inline bool is_visible(const Call& call, const AttentionSegment& segment, int64_t row,
                       int64_t entry) {
  const int64_t p = call.positions[static_cast<size_t>(row)];
  const int64_t j = entry + segment.position_offset;
  if (call.args.window > 0 && p - j >= call.args.window) return false;
  if (segment.row_visible_end != nullptr && entry >= segment.row_visible_end[row]) return false;
  return segment.visibility == Visibility::kAlways || j <= p - segment.lag;
}

// An entry that a row and head see.
struct SeenEntry {
  int32_t segment = 0;
  int64_t entry = 0;
  double score = 0;
  const float* value = nullptr;  // [head_dim]
};

inline std::vector<SeenEntry> seen_entries(const Call& call, int64_t row, int32_t head) {
  const int64_t dim = call.args.shape.head_dim;
  const int64_t kv_head = head / (call.args.n_heads / call.args.shape.n_kv_heads);
  std::vector<SeenEntry> seen;
  for (size_t s = 0; s < call.segments.size(); ++s) {
    const AttentionSegment& segment = call.segments[s];
    const TestSequence& sequence = *call.sequences[s];
    const int64_t query_row = segment.query_variant * call.args.n_rows + row;
    const float* q = call.query.data() + query_row * call.row_width() + head * dim;
    for (int64_t j = segment.begin; j < segment.end; ++j) {
      if (!is_visible(call, segment, row, j)) continue;
      const int64_t offset = j * sequence.width() + kv_head * dim;
      double score = std::inner_product(q, q + dim, sequence.key.data() + offset, 0.0);
      score *= call.args.scale;
      const double cap = call.args.score_cap;
      if (cap > 0) score = cap * std::tanh(score / cap);
      score += segment.log_gain == nullptr ? 0.0 : segment.log_gain[head];
      seen.push_back({static_cast<int32_t>(s), j, score, sequence.value.data() + offset});
    }
  }
  return seen;
}

// The softmax of their scores; empty if nothing is seen.
inline std::vector<double> weights_of(const std::vector<SeenEntry>& seen) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const SeenEntry& one : seen) max = std::max(max, one.score);
  if (std::isinf(max)) return {};
  std::vector<double> weights;
  for (const SeenEntry& one : seen) sum += weights.emplace_back(std::exp(one.score - max));
  for (double& weight : weights) weight /= sum;
  return weights;
}

// What one row and head come to.
inline std::vector<double> reference(const Call& call, int64_t row, int32_t head) {
  const std::vector<SeenEntry> seen = seen_entries(call, row, head);
  const std::vector<double> weights = weights_of(seen);
  std::vector<double> out(static_cast<size_t>(call.args.shape.head_dim));
  for (size_t i = 0; i < weights.size(); ++i)
    for (size_t c = 0; c < out.size(); ++c) out[c] += weights[i] * seen[i].value[c];
  return out;
}

// Of prompts or generated rows.
inline void expect_reference_on(Call& call, int threads) {
  const std::vector<float> out = call.run(threads);
  const int64_t dim = call.args.shape.head_dim;
  for (int64_t row = 0; row < call.args.n_rows; ++row) {
    for (int32_t head = 0; head < call.args.n_heads; ++head) {
      const std::vector<double> expected = reference(call, row, head);
      const float* actual = out.data() + row * call.row_width() + head * dim;
      for (int64_t c = 0; c < dim; ++c) {
        ASSERT_NEAR(actual[c], expected[static_cast<size_t>(c)], 1e-5)
            << "row " << row << " head " << head << " channel " << c;
      }
    }
  }
}

inline void expect_reference(Call& call, int threads = 2) {
  for (const MatmulPath path : kPaths) {
    SCOPED_TRACE(path == MatmulPath::kDecode ? "generated" : "prompt");
    expect_reference_on(call.with(path), threads);
  }
}

inline void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

inline std::vector<int32_t> rising(int32_t first, int32_t count) {
  std::vector<int32_t> positions(static_cast<size_t>(count));
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

}  // namespace suture
