// Attention of a tile of queries to one span of entries at a time, and how the queries of a call
// are shared out between the workers. The arithmetic is in kernels/cpu/attention_inl.h.
#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/cpu/attention_inl.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {
namespace {

// Finds the queries of the tile that see anything of the span and packs them. Returns their count.
int collect_active(const AttentionArgs& args, const AttentionTile& tile, const AttentionSpan& span,
                   AttentionScratch& scratch) {
  const AttentionSegment& segment = args.segments[static_cast<size_t>(span.segment)];
  const int64_t dim = args.shape.head_dim;
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
      std::copy_n(query + h * dim, dim, scratch.queries + count * dim);
      scratch.active[static_cast<size_t>(count++)] = {static_cast<int32_t>(i * group + h),
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
Range visible_range(const ActiveQuery* queries, int count, int block, bool common = false) {
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
                      const T* values, int64_t dim, float* acc) {
  const Range common = visible_range(queries, count, block, true);
  const auto each = [&](int i, int lo, int hi) HWY_ATTR {
    if (lo >= hi) return;
    accumulate<1>(1, weights + i * kAttentionSpan + lo, values + lo * dim, dim, hi - lo,
                  acc + i * dim);
  };
  if (common.empty()) {
    for (int i = 0; i < count; ++i) {
      const Range own = visible_range(queries + i, 1, block);
      each(i, own.lo, own.hi);
    }
    return;
  }
  for (int i = 0; i < count; ++i) each(i, visible_range(queries + i, 1, block).lo, common.lo);
  accumulate<kMaxQueries>(count, weights + common.lo, values + common.lo * dim, dim,
                          common.hi - common.lo, acc);
  for (int i = 0; i < count; ++i) each(i, common.hi, visible_range(queries + i, 1, block).hi);
}

// Partial softmax of the active queries over one span.
template <class T>
void attend_span(const AttentionArgs& args, const AttentionTile& tile, const AttentionSpan& span,
                 int n_active, AttentionScratch& scratch) {
  const KvLayerView& kv = args.segments[static_cast<size_t>(span.segment)].kv;
  constexpr int kSpanBlocks = kAttentionSpan / kKvBlockTokens;
  const int64_t dim = args.shape.head_dim;
  const ActiveQuery* active = scratch.active.data();
  for (int block = 0; block < kSpanBlocks; ++block) {
    const Range all = visible_range(active, n_active, block);
    if (all.empty()) continue;
    const auto rows = kv_block_rows(args.shape, kv, span.span * kSpanBlocks + block, tile.kv_head);
    transpose_rows(reinterpret_cast<const T*>(rows.key), all.lo, all.hi, dim, scratch.keys);
    for (int first = 0; first < n_active; first += kMaxQueries) {
      const int count = std::min(n_active - first, kMaxQueries);
      if (visible_range(active + first, count, block).empty()) continue;
      score_queries<kMaxQueries>(count, scratch.queries + first * dim, scratch.keys, dim,
                                 scratch.scores + first * kAttentionSpan + block * kKvBlockTokens);
    }
  }
  for (int i = 0; i < n_active; ++i) {
    softmax(args.scale, args.score_cap, active[i], scratch.scores + i * kAttentionSpan,
            scratch.partial.max + i, scratch.partial.sum + i);
  }
  std::fill_n(scratch.partial.acc, n_active * dim, 0.0f);
  for (int block = 0; block < kSpanBlocks; ++block) {
    const Range all = visible_range(active, n_active, block);
    if (all.empty()) continue;
    const auto rows = kv_block_rows(args.shape, kv, span.span * kSpanBlocks + block, tile.kv_head);
    const auto* values = reinterpret_cast<const T*>(rows.value);
    // Few queries convert V in registers; many read it so often that a converted copy pays.
    const bool convert = !std::is_same_v<T, float> && n_active > kMaxQueries;
    if (convert) convert_rows(values, all.lo, all.hi, dim, scratch.values);
    for (int first = 0; first < n_active; first += kMaxQueries) {
      const int count = std::min(n_active - first, kMaxQueries);
      const float* weights = scratch.scores + first * kAttentionSpan + block * kKvBlockTokens;
      float* acc = scratch.partial.acc + first * dim;
      if (convert) {
        accumulate_block(active + first, count, block, weights, scratch.values, dim, acc);
      } else {
        accumulate_block(active + first, count, block, weights, values, dim, acc);
      }
    }
  }
}

// Merges the tile's softmax over each span, in order, into `state`, which starts as nothing.
void attend_spans(const AttentionArgs& args, const AttentionTile& tile, const AttentionSpan* spans,
                  int64_t n_spans, AttentionScratch& scratch, const SoftmaxState& state) {
  const int64_t slots = tile.n_rows * (args.n_heads / args.shape.n_kv_heads);
  std::fill_n(state.max, slots, kNothing);
  for (int64_t s = 0; s < n_spans; ++s) {
    const int n_active = collect_active(args, tile, spans[s], scratch);
    if (n_active == 0) continue;
    switch (args.shape.dtype) {
      case DType::kF16: attend_span<hwy::float16_t>(args, tile, spans[s], n_active, scratch); break;
      case DType::kBf16:
        attend_span<hwy::bfloat16_t>(args, tile, spans[s], n_active, scratch);
        break;
      default: attend_span<float>(args, tile, spans[s], n_active, scratch); break;
    }
    for (int i = 0; i < n_active; ++i) {
      merge_slot(state, scratch.active[static_cast<size_t>(i)].slot, scratch.partial, i,
                 args.shape.head_dim);
    }
  }
}

void merge_states(const SoftmaxState& into, const SoftmaxState& from, int64_t slots, int64_t dim) {
  for (int64_t slot = 0; slot < slots; ++slot) merge_slot(into, slot, from, slot, dim);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace suture {
namespace {

HWY_EXPORT(attend_spans);
HWY_EXPORT(merge_states);

constexpr int64_t kTileQueries = 64;  // enough to hide the cost of transposing K
constexpr float kNothing = -std::numeric_limits<float>::infinity();

int64_t state_floats(int64_t slots, int64_t head_dim) { return slots * (head_dim + 2); }

SoftmaxState state_at(float* floats, int64_t slots) {
  return {floats, floats + slots, floats + 2 * slots};
}

// The spans of all segments in merging order.
void list_spans(const AttentionArgs& args, std::vector<AttentionSpan>& spans) {
  spans.clear();
  for (size_t s = 0; s < args.segments.size(); ++s) {
    const AttentionSegment& segment = args.segments[s];
    if (segment.begin >= segment.end) continue;
    const int64_t last = (segment.end - 1) / kAttentionSpan;
    for (int64_t span = segment.begin / kAttentionSpan; span <= last; ++span) {
      spans.push_back({static_cast<int32_t>(s), span});
    }
  }
}

void write_out(const AttentionArgs& args, const AttentionTile& tile, const SoftmaxState& state) {
  const int64_t dim = args.shape.head_dim;
  const int64_t group = args.n_heads / args.shape.n_kv_heads;
  for (int64_t slot = 0; slot < tile.n_rows * group; ++slot) {
    const int64_t row = tile.first_row + slot / group;
    const int64_t head = tile.kv_head * group + slot % group;
    float* out = args.out + (row * args.n_heads + head) * dim;
    if (state.max[slot] == kNothing) {
      std::fill_n(out, dim, 0.0f);
      continue;
    }
    const float* acc = state.acc + slot * dim;
    for (int64_t c = 0; c < dim; ++c) out[c] = acc[c] / state.sum[slot];
  }
}

// How the queries of one call are cut into tiles.
struct Tiling {
  explicit Tiling(const AttentionArgs& args)
      : n_rows(args.n_rows),
        group(args.n_heads / args.shape.n_kv_heads),
        rows(std::min(n_rows, std::max<int64_t>(1, kTileQueries / group))),
        per_head((n_rows + rows - 1) / rows),
        count(per_head * args.shape.n_kv_heads) {}

  int64_t slots() const { return rows * group; }
  // Early and late tiles take turns: late rows see more, and workers get equal runs of tiles.
  AttentionTile tile(int64_t index) const {
    const int64_t turn = index % per_head;
    const int64_t place = turn % 2 == 0 ? turn / 2 : per_head - 1 - turn / 2;
    return {static_cast<int32_t>(index / per_head), place * rows,
            std::min(rows, n_rows - place * rows)};
  }

  int64_t n_rows;
  int64_t group;
  int64_t rows;      // of a full tile
  int64_t per_head;  // tiles of one K/V head
  int64_t count;     // tiles in all
};

AttentionScratch& worker_scratch(CpuStream& stream, const Tiling& tiling, int64_t head_dim) {
  thread_local AttentionScratch scratch;
  if (scratch.resize(tiling.slots(), head_dim)) stream.note_lazily_built();
  return scratch;
}

void attend_tiles(CpuStream& stream, const AttentionArgs& args, const Tiling& tiling,
                  const std::vector<AttentionSpan>& spans) {
  stream.pool().parallel_for(tiling.count, [&](int64_t begin, int64_t end, int) {
    AttentionScratch& scratch = worker_scratch(stream, tiling, args.shape.head_dim);
    for (int64_t i = begin; i < end; ++i) {
      const AttentionTile tile = tiling.tile(i);
      HWY_DYNAMIC_DISPATCH(attend_spans)
      (args, tile, spans.data(), static_cast<int64_t>(spans.size()), scratch, scratch.state);
      write_out(args, tile, scratch.state);
    }
  });
}

// Few tiles cannot occupy all workers: the spans of each tile are attended to in parallel as well
// and merged afterwards, in the same order and so to the same bits as above.
void attend_tiles_by_span(CpuStream& stream, const AttentionArgs& args, const Tiling& tiling,
                          const std::vector<AttentionSpan>& spans) {
  thread_local FloatArena arena;
  const int64_t dim = args.shape.head_dim;
  const int64_t n_spans = static_cast<int64_t>(spans.size());
  const int64_t stride = state_floats(tiling.slots(), dim);
  float* states = arena.reserve(static_cast<size_t>(tiling.count * n_spans * stride));
  const auto state = [&](int64_t item) { return state_at(states + item * stride, tiling.slots()); };
  stream.pool().parallel_for(tiling.count * n_spans, [&](int64_t begin, int64_t end, int) {
    AttentionScratch& scratch = worker_scratch(stream, tiling, dim);
    for (int64_t item = begin; item < end; ++item) {
      HWY_DYNAMIC_DISPATCH(attend_spans)
      (args, tiling.tile(item / n_spans), &spans[static_cast<size_t>(item % n_spans)], 1, scratch,
       state(item));
    }
  });
  for (int64_t i = 0; i < tiling.count; ++i) {
    const AttentionTile tile = tiling.tile(i);
    for (int64_t s = 1; s < n_spans; ++s) {
      HWY_DYNAMIC_DISPATCH(merge_states)
      (state(i * n_spans), state(i * n_spans + s), tile.n_rows * tiling.group, dim);
    }
    write_out(args, tile, state(i * n_spans));
  }
}

}  // namespace

bool AttentionScratch::resize(int64_t slots, int64_t head_dim) {
  const auto lines = [](int64_t floats) { return (floats + 15) / 16 * 16; };
  const int64_t block = lines(kKvBlockTokens * head_dim);
  const int64_t query = lines(slots * head_dim);
  const int64_t states = lines(state_floats(slots, head_dim));
  const size_t capacity = arena_.capacity();
  float* next =
      arena_.reserve(static_cast<size_t>(2 * block + query + slots * kAttentionSpan + 2 * states));
  const auto take = [&next](int64_t floats) { return std::exchange(next, next + floats); };
  keys = take(block);
  values = take(block);
  queries = take(query);
  scores = take(slots * kAttentionSpan);
  partial = state_at(take(states), slots);
  state = state_at(take(states), slots);
  active.resize(static_cast<size_t>(slots));
  return arena_.capacity() != capacity;
}

void attention_cpu(CpuStream& stream, const AttentionArgs& args) {
  thread_local std::vector<AttentionSpan> spans;
  list_spans(args, spans);
  const Tiling tiling(args);
  if (tiling.count < 4 * stream.pool().size() && spans.size() > 1) {
    attend_tiles_by_span(stream, args, tiling, spans);
  } else {
    attend_tiles(stream, args, tiling, spans);
  }
}

}  // namespace suture
#endif  // HWY_ONCE
