// Scores of generated rows: K is met where it lies, with vectors that run along the head's
// dimensions. Per-target Highway header. Every score is the same sums in the same order, whatever
// else is computed beside it.
#if defined(SUTURE_KERNELS_CPU_ATTENTION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SUTURE_KERNELS_CPU_ATTENTION_DECODE_INL_H_
#undef SUTURE_KERNELS_CPU_ATTENTION_DECODE_INL_H_
#else
#define SUTURE_KERNELS_CPU_ATTENTION_DECODE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/attention_inl.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {

// The last `n` values of a row, then zeros.
template <class T>
HWY_INLINE hn::Vec<F32> load_rest(F32 d, const T* source, int64_t n) {
  alignas(64) float values[kLanes] = {};
  const Quarter quarter;
  for (int64_t i = 0; i < n; i += kQuarterLanes) {
    hn::StoreU(load_f32(quarter, source + i), quarter, values + i);
  }
  return hn::Load(d, values);
}

#if HWY_TARGET == HWY_SCALAR
template <class V>
void store_sums(V a0, V a1, V b0, V b1, float* a, float* b) {
  a[0] = hn::GetLane(a0);
  a[1] = hn::GetLane(a1);
  b[0] = hn::GetLane(b0);
  b[1] = hn::GetLane(b1);
}
#else
// Adds up a vector's blocks of four lanes: the halves, then their halves.
template <class D>
HWY_INLINE hn::Vec<Quarter> add_blocks(hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return add_blocks<hn::Half<D>>(hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// a[i] = the sum of the lanes of a_i, b[i] that of b_i.
template <class V>
HWY_INLINE void store_sums(V a0, V a1, V b0, V b1, float* a, float* b) {
  const F32 d;
  const hn::RepartitionToWide<F32> wide;
  const hn::Half<Quarter> pair;
  const V as = hn::Add(hn::InterleaveLower(d, a0, a1), hn::InterleaveUpper(d, a0, a1));
  const V bs = hn::Add(hn::InterleaveLower(d, b0, b1), hn::InterleaveUpper(d, b0, b1));
  const auto wide_as = hn::BitCast(wide, as), wide_bs = hn::BitCast(wide, bs);
  const V all = hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, wide_as, wide_bs)),
                        hn::BitCast(d, hn::InterleaveUpper(wide, wide_as, wide_bs)));
  const auto sums = add_blocks<F32>(all);
  hn::StoreU(hn::LowerHalf(pair, sums), pair, a);
  hn::StoreU(hn::UpperHalf(pair, sums), pair, b);
}
#endif

// Sums of the products of up to kMaxQueries queries with two entries, over the lanes so far.
template <int kCount>
struct TileSums {
  hn::Vec<F32> first[kCount], second[kCount];

  HWY_INLINE void clear() {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) first[i] = second[i] = hn::Zero(F32());
  }
  HWY_INLINE void add(const float* queries, int64_t stride, hn::Vec<F32> key0, hn::Vec<F32> key1) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const auto query = hn::LoadU(F32(), queries + i * stride);
      first[i] = hn::MulAdd(query, key0, first[i]);
      second[i] = hn::MulAdd(query, key1, second[i]);
    }
  }
  // scores[i][0] and scores[i][1]
  HWY_INLINE void store(float* scores) const {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; i += 2) {
      const int other = std::min(i + 1, kCount - 1);  // the last of an odd number goes twice
      store_sums(first[i], second[i], first[other], second[other], scores + i * kAttentionSpan,
                 scores + other * kAttentionSpan);
    }
  }
};

template <int kCount, class T>
void score_rows(int count, const float* queries, const T* rows, int lo, int hi, int64_t dim,
                float* scores, Prefetcher& next) {
  if (count < kCount) {
    if constexpr (kCount > 1) {
      score_rows<kCount - 1>(count, queries, rows, lo, hi, dim, scores, next);
    }
    return;
  }
  const F32 d;
  const int64_t stride = query_stride(dim);
  const int64_t lines = (2 * dim * static_cast<int64_t>(sizeof(T)) + 63) / 64;
  for (int j = lo & ~1; j < hi; j += 2) {
    const T* row0 = rows + std::max(j, lo) * dim;
    const T* row1 = rows + std::min(j + 1, hi - 1) * dim;
    next.fetch(lines);
    TileSums<kCount> sums;
    sums.clear();
    int64_t c = 0;
    for (; c + kLanes <= dim; c += kLanes) {
      sums.add(queries + c, stride, load_f32(d, row0 + c), load_f32(d, row1 + c));
    }
    if (c < dim) {
      sums.add(queries + c, stride, load_rest(d, row0 + c, dim - c),
               load_rest(d, row1 + c, dim - c));
    }
    sums.store(scores + j);
  }
}

// scores[i][j] = queries[i] . rows[j] for entries [lo, hi) of a block, and copies of their
// neighbours' beside them. Rows outside are never read (their owner may be writing them).
template <class T>
void score_block(int count, const float* queries, const T* rows, int lo, int hi, int64_t dim,
                 float* scores, Prefetcher& next) {
  for (int i = 0; i < count; i += kMaxQueries) {
    score_rows<kMaxQueries>(std::min(count - i, kMaxQueries), queries + i * query_stride(dim), rows,
                            lo, hi, dim, scores + i * kAttentionSpan, next);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
