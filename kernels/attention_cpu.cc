// How the queries of a call are shared out between the workers, and what their spans come to.
#include "kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/cpu/attention_span_inl.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/ops.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {
namespace {

// Merges the tile's softmax over each span, in order, into `state`.
void attend_spans(const AttentionArgs& args, const AttentionTile& tile, const AttentionSpan* spans,
                  int64_t n_spans, AttentionScratch& scratch, const SoftmaxState& state) {
  for (const AttentionSpan* span = spans; span < spans + n_spans; ++span) {
    const int n = collect_active(args, tile, *span, scratch);
    if (n == 0) continue;
    switch (args.shape.dtype) {
      case DType::kF16:
        attend_span(args, SpanWork<hwy::float16_t>(args, tile, *span, n, scratch));
        break;
      case DType::kBf16:
        attend_span(args, SpanWork<hwy::bfloat16_t>(args, tile, *span, n, scratch));
        break;
      default: attend_span(args, SpanWork<float>(args, tile, *span, n, scratch)); break;
    }
    if (args.n_shares > 0) add_masses(args, *span, n, scratch);
    for (int i = 0; i < n; ++i) {
      merge_slot(state, scratch.active[i].slot, scratch.partial, i, softmax_width(args));
    }
  }
}

void merge_states(const SoftmaxState& into, const SoftmaxState& from, int64_t slots,
                  const SoftmaxState::Width& width) {
  for (int64_t slot = 0; slot < slots; ++slot) merge_slot(into, slot, from, slot, width);
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

constexpr float kNothing = -std::numeric_limits<float>::infinity();
// Spans listed at a time, and floats of their states where tiles are shared out by span.
constexpr int64_t kSpansAtOnce = 64;
constexpr int64_t kStateFloats = 1 << 20;

using Spans = std::array<AttentionSpan, kSpansAtOnce>;

void write_out(const AttentionArgs& args, const AttentionTile& tile, const SoftmaxState& state) {
  const int64_t dim = args.shape.head_dim;
  const int64_t group = args.n_heads / args.shape.n_kv_heads;
  for (int64_t slot = 0; slot < tile.n_rows * group; ++slot) {
    const int64_t row = tile.first_row + slot / group;
    const int64_t head = tile.kv_head * group + slot % group;
    float* out = args.out + (row * args.n_heads + head) * dim;
    float* shares = args.shares + (row * args.n_heads + head) * args.n_shares;
    if (state.max[slot] == kNothing) {
      std::fill_n(out, dim, 0.0f);
      std::fill_n(shares, args.n_shares, 0.0f);
      continue;
    }
    const float* acc = state.acc + slot * dim;
    const float* mass = state.mass + slot * args.n_shares;
    for (int64_t c = 0; c < dim; ++c) out[c] = acc[c] / state.sum[slot];
    for (int32_t i = 0; i < args.n_shares; ++i) shares[i] = mass[i] / state.sum[slot];
  }
}

// One call on a stream: how it is cut, and memory of a size that the model's shape and the number
// of shares alone decide.
class Attention {
 public:
  Attention(CpuStream& stream, const AttentionArgs& args)
      : pool_(stream.pool()),
        args_(args),
        tiling_(args),
        width_(softmax_width(args)),
        max_slots_(std::max(kTileQueries, tiling_.group)),
        worker_bytes_(AttentionScratch::bytes(max_slots_, width_)),
        state_floats_(SoftmaxState::floats(tiling_.slots(), width_)) {}

  size_t bytes() const {
    return static_cast<size_t>(pool_.size()) * worker_bytes_ + kStateFloats * sizeof(float);
  }

  void run(std::byte* memory) {
    workers_ = memory;
    states_ = reinterpret_cast<float*>(memory + static_cast<size_t>(pool_.size()) * worker_bytes_);
    // The last place is for what has been merged of each tile.
    const int64_t room = std::min(kSpansAtOnce, kStateFloats / (tiling_.count * state_floats_) - 1);
    if (tiling_.count < 4 * pool_.size() && room > 1) {
      attend_by_span(room);
    } else {
      attend_by_tile();
    }
  }

 private:
  AttentionScratch scratch_of(int worker) const {
    return AttentionScratch::at(workers_ + static_cast<size_t>(worker) * worker_bytes_, max_slots_,
                                width_);
  }
  SoftmaxState state(int64_t index) const {
    return SoftmaxState::at(states_ + index * state_floats_, tiling_.slots(), width_);
  }
  void clear(const SoftmaxState& state) const { std::fill_n(state.max, tiling_.slots(), kNothing); }

  void attend_by_tile() const {
    pool_.parallel_for(tiling_.count, [&](int64_t begin, int64_t end, int worker) {
      AttentionScratch scratch = scratch_of(worker);
      Spans spans;
      for (int64_t i = begin; i < end; ++i) {
        const AttentionTile tile = tiling_.tile(i);
        clear(scratch.state);
        SpanCursor cursor(args_);
        while (const int64_t n = cursor.next(spans)) {
          HWY_DYNAMIC_DISPATCH(attend_spans)
          (args_, tile, spans.data(), n, scratch, scratch.state);
        }
        write_out(args_, tile, scratch.state);
      }
    });
  }

  // Few tiles cannot occupy all workers: the spans of each tile are attended to in parallel as well
  // and merged afterwards, in the same order and so to the same bits as above.
  void attend_by_span(int64_t room) const {
    Spans spans;
    SpanCursor cursor(args_);
    const int64_t merged = tiling_.count * room;  // states from here on: one for each tile
    for (int64_t i = 0; i < tiling_.count; ++i) clear(state(merged + i));
    while (const int64_t n = cursor.next(std::span(spans).first(static_cast<size_t>(room)))) {
      pool_.parallel_for(tiling_.count * n, [&](int64_t begin, int64_t end, int worker) {
        AttentionScratch scratch = scratch_of(worker);
        for (int64_t item = begin; item < end; ++item) {
          clear(state(item));
          HWY_DYNAMIC_DISPATCH(attend_spans)
          (args_, tiling_.tile(item / n), &spans[static_cast<size_t>(item % n)], 1, scratch,
           state(item));
        }
      });
      for (int64_t item = 0; item < tiling_.count * n; ++item) {
        const int64_t slots = tiling_.tile(item / n).n_rows * tiling_.group;
        HWY_DYNAMIC_DISPATCH(merge_states)(state(merged + item / n), state(item), slots, width_);
      }
    }
    for (int64_t i = 0; i < tiling_.count; ++i) {
      write_out(args_, tiling_.tile(i), state(merged + i));
    }
  }

  ThreadPool& pool_;
  const AttentionArgs& args_;
  const Tiling tiling_;
  const SoftmaxState::Width width_;
  const int64_t max_slots_;
  const size_t worker_bytes_;
  const int64_t state_floats_;    // of one tile
  std::byte* workers_ = nullptr;  // [workers][worker_bytes_]
  float* states_ = nullptr;       // [kStateFloats / state_floats_][state_floats_]
};

}  // namespace

Status attention_cpu(CpuStream& stream, const AttentionArgs& args) {
  Attention attention(stream, args);
  SUTURE_ASSIGN_OR_RETURN(std::byte * memory, stream.scratch(attention.bytes()));
  attention.run(memory);
  return {};
}

}  // namespace suture
#endif  // HWY_ONCE
