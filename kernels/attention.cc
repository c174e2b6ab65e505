#include "kernels/attention.h"

#include <cmath>

#include "kernels/cpu/ops.h"
#include "kernels/dispatch.h"

namespace suture {
namespace {

constexpr const char* kOp = "attention";
constexpr int64_t kMaxEntries = int64_t{1} << 40;  // keeps sums of positions far from overflow

bool in_reach(int64_t value) { return -kMaxEntries <= value && value <= kMaxEntries; }

Status check_segment(const AttentionArgs& args, const AttentionSegment& segment) {
  SUTURE_REQUIRE(0 <= segment.begin && segment.begin <= segment.end && segment.end <= kMaxEntries,
                 kOp, "begin={} end={}", segment.begin, segment.end);
  SUTURE_REQUIRE(in_reach(segment.position_offset) && in_reach(segment.lag), kOp,
                 "position_offset={} lag={}", segment.position_offset, segment.lag);
  SUTURE_REQUIRE(0 <= segment.query_variant && segment.query_variant < args.n_variants, kOp,
                 "query_variant={} n_variants={}", segment.query_variant, args.n_variants);
  const bool has_kv = segment.kv.base != nullptr && segment.kv.block_ids != nullptr;
  SUTURE_REQUIRE(has_kv || segment.begin == segment.end, kOp, "entries without blocks");
  return {};
}

Status check_shares(const AttentionArgs& args) {
  SUTURE_REQUIRE(0 <= args.n_shares && args.n_shares <= kMaxAttentionShares, kOp, "n_shares={}",
                 args.n_shares);
  SUTURE_REQUIRE((args.shares != nullptr) == (args.n_shares > 0), kOp,
                 "n_shares={} without a place for them, or the other way round", args.n_shares);
  for (const AttentionRange& range : args.ranges) {
    SUTURE_REQUIRE(0 <= range.segment && range.segment < std::ssize(args.segments), kOp,
                   "a range of segment {} of {}", range.segment, args.segments.size());
    SUTURE_REQUIRE(in_reach(range.begin) && in_reach(range.end), kOp, "a range from {} to {}",
                   range.begin, range.end);
    SUTURE_REQUIRE(0 <= range.share && range.share < args.n_shares, kOp, "share={} n_shares={}",
                   range.share, args.n_shares);
  }
  return {};
}

Status check_attention(const AttentionArgs& args) {
  SUTURE_RETURN_IF_ERROR(check_kv_shape(args.shape, kOp));
  SUTURE_REQUIRE(args.n_rows >= 0 && args.n_variants > 0, kOp, "n_rows={} n_variants={}",
                 args.n_rows, args.n_variants);
  SUTURE_REQUIRE(args.n_heads > 0 && args.n_heads % args.shape.n_kv_heads == 0, kOp,
                 "n_heads={} n_kv_heads={}", args.n_heads, args.shape.n_kv_heads);
  SUTURE_REQUIRE(args.shape.head_dim % 4 == 0, kOp, "head_dim={}", args.shape.head_dim);
  SUTURE_REQUIRE(std::isfinite(args.scale), kOp, "scale={}", args.scale);
  SUTURE_REQUIRE(std::isfinite(args.score_cap) && args.score_cap >= 0, kOp, "score_cap={}",
                 args.score_cap);
  SUTURE_REQUIRE(0 <= args.window && args.window <= kMaxEntries, kOp, "window={}", args.window);
  const bool has_rows = args.query != nullptr && args.positions != nullptr && args.out != nullptr;
  SUTURE_REQUIRE(has_rows || args.n_rows == 0, kOp, "query, positions or out is null");
  for (const AttentionSegment& segment : args.segments) {
    SUTURE_RETURN_IF_ERROR(check_segment(args, segment));
  }
  return check_shares(args);
}

}  // namespace

Status attention(Stream& stream, const AttentionArgs& args) {
  SUTURE_RETURN_IF_ERROR(check_attention(args));
  if (args.n_rows == 0) return {};
  switch (stream.kind()) {
    case DeviceKind::kCpu: return attention_cpu(as_cpu(stream), args);
    case DeviceKind::kCuda: break;
  }
  return no_such_backend(kOp);
}

}  // namespace suture
