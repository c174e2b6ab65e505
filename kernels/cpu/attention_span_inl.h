// Attention of a tile of queries to one span of entries. Per-target Highway header. The arithmetic
// is in attention_inl.h and, for generated rows, attention_decode_inl.h.
#if defined(SUTURE_KERNELS_CPU_ATTENTION_SPAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SUTURE_KERNELS_CPU_ATTENTION_SPAN_INL_H_
#undef SUTURE_KERNELS_CPU_ATTENTION_SPAN_INL_H_
#else
#define SUTURE_KERNELS_CPU_ATTENTION_SPAN_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "kernels/cpu/attention_decode_inl.h"
#include "kernels/cpu/attention_inl.h"
#include "kernels/cpu/attention_tile.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {

// Finds the queries of the tile that see anything of the span and packs them. Returns their count.
inline int collect_active(const AttentionArgs& args, const AttentionTile& tile,
                          const AttentionSpan& span, AttentionScratch& scratch) {
  const AttentionSegment& segment = args.segments[static_cast<size_t>(span.segment)];
  const int64_t dim = args.shape.head_dim;
  const int64_t stride = query_stride(dim);
  const int32_t group = args.n_heads / args.shape.n_kv_heads;
  const int32_t first_head = tile.kv_head * group;
  const int64_t origin = span.span * kAttentionSpan;
  int count = 0;
  for (int64_t i = 0; i < tile.n_rows; ++i) {
    const int64_t row = tile.first_row + i;
    const int64_t position = args.positions[row];
    int64_t lo = std::max(segment.begin, origin);
    int64_t hi = std::min(segment.end, origin + kAttentionSpan);
    if (segment.visibility == Visibility::kUpTo) {
      hi = std::min(hi, position - segment.lag - segment.position_offset + 1);
    }
    if (segment.row_visible_end != nullptr) {
      hi = std::min<int64_t>(hi, segment.row_visible_end[row]);
    }
    if (args.window > 0) {
      lo = std::max(lo, position - args.window + 1 - segment.position_offset);
    }
    if (lo >= hi) continue;
    const float* query =
        args.query +
        ((segment.query_variant * args.n_rows + row) * args.n_heads + first_head) * dim;
    for (int32_t h = 0; h < group; ++h) {
      const float gain = segment.log_gain == nullptr ? 0.0f : segment.log_gain[first_head + h];
      if (gain == kNothing) continue;
      float* packed = scratch.queries + count * stride;
      std::fill(std::copy_n(query + h * dim, dim, packed), packed + stride, 0.0f);
      scratch.active[count++] = {static_cast<int32_t>(i * group + h),
                                 static_cast<int32_t>(lo - origin),
                                 static_cast<int32_t>(hi - origin), gain};
    }
  }
  return count;
}

struct Range {
  int lo = 0;
  int hi = 0;
  bool empty() const { return lo >= hi; }
};

// Entries of block `block` of the span that any (or, for `common`, that all) of the queries see,
// counted from the block's first.
inline Range visible_range(const ActiveQuery* queries, int count, int block, bool common = false) {
  constexpr int kTokens = static_cast<int>(kKvBlockTokens);
  Range range = common ? Range{0, kTokens} : Range{kTokens, 0};
  for (int i = 0; i < count; ++i) {
    const int lo = std::clamp(queries[i].lo - block * kTokens, 0, kTokens);
    const int hi = std::clamp(queries[i].hi - block * kTokens, 0, kTokens);
    if (!common && lo >= hi) continue;
    range.lo = common ? std::max(range.lo, lo) : std::min(range.lo, lo);
    range.hi = common ? std::min(range.hi, hi) : std::max(range.hi, hi);
  }
  return range;
}

// Adds the visible entries of one block to the outputs of up to kMaxQueries queries: those that all
// of them see together, the others before and after one query at a time, each in rising order.
template <class T>
void accumulate_block(const ActiveQuery* queries, int count, int block, const float* weights,
                      const T* values, int64_t dim, float* acc, Prefetcher& next) {
  const Range common = visible_range(queries, count, block, true);
  const auto each = [&](int i, int lo, int hi) HWY_ATTR {
    if (lo >= hi) return;
    accumulate<1>(1, weights + i * kAttentionSpan + lo, values + lo * dim, dim, hi - lo,
                  acc + i * dim, next);
  };
  if (common.empty()) {
    for (int i = 0; i < count; ++i) {
      const Range own = visible_range(queries + i, 1, block);
      each(i, own.lo, own.hi);
    }
    return;
  }
  const bool whole = common.lo == 0 && common.hi == kKvBlockTokens;
  for (int i = 0; i < count && !whole; ++i)
    each(i, visible_range(queries + i, 1, block).lo, common.lo);
  accumulate<kMaxQueries>(count, weights + common.lo, values + common.lo * dim, dim,
                          common.hi - common.lo, acc, next);
  if (whole) return;
  for (int i = 0; i < count; ++i) each(i, common.hi, visible_range(queries + i, 1, block).hi);
}

inline constexpr int kSpanBlocks = kAttentionSpan / kKvBlockTokens;

// What the products of one tile with one span have in common.
template <class T>
struct SpanWork {
  SpanWork(const AttentionArgs& args, const AttentionTile& tile, const AttentionSpan& span,
           int active_queries, AttentionScratch& memory)
      : shape(args.shape),
        kv(args.segments[static_cast<size_t>(span.segment)].kv),
        first_block(span.span * kSpanBlocks),
        kv_head(tile.kv_head),
        dim(args.shape.head_dim),
        n_active(active_queries),
        active(memory.active),
        scratch(memory) {}

  Range range(int block) const { return visible_range(active, n_active, block); }
  const T* key(int block) const { return reinterpret_cast<const T*>(rows(block).key); }
  const T* value(int block) const { return reinterpret_cast<const T*>(rows(block).value); }
  // Of what the queries see of a block.
  Prefetcher prefetcher(int block, bool of_value) const {
    if (block == kSpanBlocks) return {};
    const Range all = range(block);
    if (all.empty()) return {};
    const T* first = (of_value ? value(block) : key(block)) + all.lo * dim;
    return {first, (all.hi - all.lo) * dim * int64_t{sizeof(T)}};
  }

  const KvShape& shape;
  const KvLayerView& kv;
  const int64_t first_block;
  const int32_t kv_head;
  const int64_t dim;
  const int n_active;
  const ActiveQuery* const active;
  AttentionScratch& scratch;

 private:
  KvBlockRows rows(int block) const {
    return kv_block_rows(shape, kv, first_block + block, kv_head);
  }
};

// Raw products of all queries with K, many queries to each transposed block.
template <class T>
void score_prompt(const SpanWork<T>& work) {
  const AttentionScratch& scratch = work.scratch;
  for (int block = 0; block < kSpanBlocks; ++block) {
    const Range all = work.range(block);
    if (all.empty()) continue;
    transpose_rows(work.key(block), all.lo, all.hi, work.dim, scratch.keys);
    for (int first = 0; first < work.n_active; first += kMaxQueries) {
      const int count = std::min(work.n_active - first, kMaxQueries);
      if (visible_range(work.active + first, count, block).empty()) continue;
      score_queries<kMaxQueries>(count, scratch.queries + first * query_stride(work.dim),
                                 scratch.keys, work.dim,
                                 scratch.scores + first * kAttentionSpan + block * kKvBlockTokens);
    }
  }
}

// The same for a few queries.
template <class T>
void score_generated(const SpanWork<T>& work) {
  for (int block = 0; block < kSpanBlocks; ++block) {
    const Range all = work.range(block);
    if (all.empty()) continue;
    // After the last block of K comes the first of V.
    Prefetcher next =
        block + 1 < kSpanBlocks ? work.prefetcher(block + 1, false) : work.prefetcher(0, true);
    score_block(work.n_active, work.scratch.queries, work.key(block), all.lo, all.hi, work.dim,
                work.scratch.scores + block * kKvBlockTokens, next);
  }
}

// acc = the weighted sums of V.
template <class T>
void add_values(const SpanWork<T>& work) {
  const AttentionScratch& scratch = work.scratch;
  std::fill_n(scratch.partial.acc, work.n_active * work.dim, 0.0f);
  for (int block = 0; block < kSpanBlocks; ++block) {
    const Range all = work.range(block);
    if (all.empty()) continue;
    const T* values = work.value(block);
    // Few queries convert V in registers; many read it so often that a converted copy pays.
    const bool convert = !std::is_same_v<T, float> && work.n_active > kMaxQueries;
    if (convert) convert_rows(values, all.lo, all.hi, work.dim, scratch.values);
    Prefetcher next = convert ? Prefetcher() : work.prefetcher(block + 1, true);
    for (int first = 0; first < work.n_active; first += kMaxQueries) {
      const int count = std::min(work.n_active - first, kMaxQueries);
      const ActiveQuery* queries = work.active + first;
      const float* weights = scratch.scores + first * kAttentionSpan + block * kKvBlockTokens;
      float* acc = scratch.partial.acc + first * work.dim;
      if (convert) {
        accumulate_block(queries, count, block, weights, scratch.values, work.dim, acc, next);
      } else {
        accumulate_block(queries, count, block, weights, values, work.dim, acc, next);
      }
    }
  }
}

// Partial softmax of the active queries over one span.
template <class T>
void attend_span(const AttentionArgs& args, const SpanWork<T>& work) {
  if (args.path == MatmulPath::kDecode) {
    score_generated(work);
  } else {
    score_prompt(work);
  }
  const AttentionScratch& scratch = work.scratch;
  for (int i = 0; i < work.n_active; ++i) {
    softmax(args.scale, args.score_cap, work.active[i], scratch.scores + i * kAttentionSpan,
            scratch.partial.max + i, scratch.partial.sum + i);
  }
  add_values(work);
}

// What falls on the ranges that are asked for of what the active queries see of the span.
inline void add_masses(const AttentionArgs& args, const AttentionSpan& span, int n_active,
                       const AttentionScratch& scratch) {
  const SoftmaxState& partial = scratch.partial;
  std::fill_n(partial.mass, n_active * args.n_shares, 0.0f);
  const int64_t origin = span.span * kAttentionSpan;
  for (const AttentionRange& range : args.ranges) {
    if (range.segment != span.segment) continue;
    for (int i = 0; i < n_active; ++i) {
      const ActiveQuery& query = scratch.active[i];
      const auto lo = static_cast<int32_t>(std::max<int64_t>(range.begin - origin, query.lo));
      const auto hi = static_cast<int32_t>(std::min<int64_t>(range.end - origin, query.hi));
      if (lo >= hi || partial.max[i] == kNothing) continue;
      const float* weights = scratch.scores + i * kAttentionSpan;
      const bool all = lo == query.lo && hi == query.hi;
      partial.mass[i * args.n_shares + range.share] +=
          all ? partial.sum[i] : std::accumulate(weights + lo, weights + hi, 0.0f);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
