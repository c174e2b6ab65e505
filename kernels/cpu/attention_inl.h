// The arithmetic of attention on one block or one span, for each instruction set. Per-target
// Highway header. Every score is one chain of additions over the head's dimensions and every output
// one chain over the entries it sees, so blocking, tiling and the number of rows leave no trace.
#if defined(SUTURE_KERNELS_CPU_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SUTURE_KERNELS_CPU_ATTENTION_INL_H_
#undef SUTURE_KERNELS_CPU_ATTENTION_INL_H_
#else
#define SUTURE_KERNELS_CPU_ATTENTION_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/exp_inl.h"

HWY_BEFORE_NAMESPACE();
namespace suture {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using Quarter = hn::CappedTag<float, 4>;  // head_dim is a multiple of 4
inline constexpr float kNothing = -std::numeric_limits<float>::infinity();
inline constexpr int64_t kLanes = hn::MaxLanes(F32());
inline constexpr int64_t kQuarterLanes = hn::MaxLanes(Quarter());  // 1 on a CPU without AVX2

// Queries that share each load of K or V; with two vectors of entries they fill the registers.
inline constexpr int kMaxQueries = HWY_TARGET <= HWY_AVX3 ? 8 : 6;

// What will be needed next, fetched bit by bit while something else is in use.
class Prefetcher {
 public:
  static constexpr int64_t kLine = 64;

  Prefetcher() = default;
  Prefetcher(const void* begin, int64_t bytes)
      : next_(static_cast<const char*>(begin)), end_(next_ + (begin != nullptr ? bytes : 0)) {}

  HWY_INLINE void fetch(int64_t lines) {
    for (int64_t i = 0; i < lines && next_ < end_; ++i, next_ += kLine) hwy::Prefetch(next_);
  }

 private:
  const char* next_ = nullptr;
  const char* end_ = nullptr;
};

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D d, const float* source) {
  return hn::LoadU(d, source);
}

template <class D, class Half>
HWY_INLINE hn::Vec<D> load_f32(D d, const Half* source) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<Half, D>(), source));
}

// keys[c + i][j] = rows[i][c] for four rows and four columns.
#if HWY_TARGET == HWY_SCALAR
template <class T>
void transpose_4x4(const T* const* rows, int64_t c, float* keys) {
  const Quarter d;
  for (int64_t i = 0; i < 16; ++i) {
    hn::StoreU(load_f32(d, rows[i % 4] + c + i / 4), d, keys + i / 4 * kKvBlockTokens + i % 4);
  }
}
#else
template <class T>
HWY_INLINE void transpose_4x4(const T* const* rows, int64_t c, float* keys) {
  const Quarter d;
  const auto r0 = load_f32(d, rows[0] + c), r1 = load_f32(d, rows[1] + c);
  const auto r2 = load_f32(d, rows[2] + c), r3 = load_f32(d, rows[3] + c);
  const auto low02 = hn::InterleaveLower(d, r0, r2), low13 = hn::InterleaveLower(d, r1, r3);
  const auto high02 = hn::InterleaveUpper(d, r0, r2), high13 = hn::InterleaveUpper(d, r1, r3);
  hn::StoreU(hn::InterleaveLower(d, low02, low13), d, keys);
  hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, keys + kKvBlockTokens);
  hn::StoreU(hn::InterleaveLower(d, high02, high13), d, keys + 2 * kKvBlockTokens);
  hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, keys + 3 * kKvBlockTokens);
}
#endif

// keys[c][j] = rows[j][c] for rows [lo, hi) of a block. Rows outside are never read (their owner
// may be writing them); their columns hold copies that nobody looks at.
template <class T>
void transpose_rows(const T* rows, int lo, int hi, int64_t dim, float* keys) {
  for (int j = lo & ~3; j < hi; j += 4) {
    const T* four[4];
    for (int i = 0; i < 4; ++i) four[i] = rows + std::clamp(j + i, lo, hi - 1) * dim;
    for (int64_t c = 0; c < dim; c += 4) transpose_4x4(four, c, keys + c * kKvBlockTokens + j);
  }
}

template <class T>
void convert_rows(const T* rows, int lo, int hi, int64_t dim, float* values) {
  const F32 d;
  const Quarter quarter;
  int64_t i = lo * dim;
  for (; i + kLanes <= hi * dim; i += kLanes) hn::StoreU(load_f32(d, rows + i), d, values + i);
  for (; i < hi * dim; i += kQuarterLanes) {
    hn::StoreU(load_f32(quarter, rows + i), quarter, values + i);
  }
}

// scores[i][j] = queries[i] . keys[:, j] for the 32 entries of a block.
template <int kCount>
void score_queries(int count, const float* queries, const float* keys, int64_t dim, float* scores) {
  const int64_t stride = query_stride(dim);
  if (count < kCount) {
    if constexpr (kCount > 1) score_queries<kCount - 1>(count, queries, keys, dim, scores);
    return;
  }
  const F32 d;
  for (int64_t j = 0; j < kKvBlockTokens; j += 2 * kLanes) {
    hn::Vec<F32> sum0[kCount], sum1[kCount];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) sum0[i] = sum1[i] = hn::Zero(d);
    for (int64_t c = 0; c < dim; ++c) {
      const auto key0 = hn::LoadU(d, keys + c * kKvBlockTokens + j);
      const auto key1 = hn::LoadU(d, keys + c * kKvBlockTokens + j + kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
        const auto query = hn::Set(d, queries[i * stride + c]);
        sum0[i] = hn::MulAdd(query, key0, sum0[i]);
        sum1[i] = hn::MulAdd(query, key1, sum1[i]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      hn::StoreU(sum0[i], d, scores + i * kAttentionSpan + j);
      hn::StoreU(sum1[i], d, scores + i * kAttentionSpan + j + kLanes);
    }
  }
}

// acc[i][:] += weights[i][j] * values[j][:] over n entries, for some vectors of columns.
template <int kCount, int kVectors, class D, class T>
HWY_INLINE void accumulate_columns(D d, const float* weights, const T* values, int64_t dim, int n,
                                   float* acc) {
  hn::Vec<D> sum[kCount][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 2
    for (int k = 0; k < kVectors; ++k) sum[i][k] = hn::LoadU(d, acc + i * dim + k * hn::Lanes(d));
  }
  for (int j = 0; j < n; ++j) {
    hn::Vec<D> value[kVectors];
#pragma GCC unroll 2
    for (int k = 0; k < kVectors; ++k) value[k] = load_f32(d, values + j * dim + k * hn::Lanes(d));
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const auto weight = hn::Set(d, weights[i * kAttentionSpan + j]);
#pragma GCC unroll 2
      for (int k = 0; k < kVectors; ++k) sum[i][k] = hn::MulAdd(weight, value[k], sum[i][k]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 2
    for (int k = 0; k < kVectors; ++k) hn::StoreU(sum[i][k], d, acc + i * dim + k * hn::Lanes(d));
  }
}

template <int kCount, class T>
void accumulate(int count, const float* weights, const T* values, int64_t dim, int n, float* acc,
                Prefetcher& next) {
  if (count < kCount) {
    if constexpr (kCount > 1) accumulate<kCount - 1>(count, weights, values, dim, n, acc, next);
    return;
  }
  const F32 d;
  int64_t c = 0;
  for (; c + 2 * kLanes <= dim; c += 2 * kLanes) {
    next.fetch(n * 2 * kLanes * static_cast<int64_t>(sizeof(T)) / Prefetcher::kLine);
    accumulate_columns<kCount, 2>(d, weights, values + c, dim, n, acc + c);
  }
  for (; c + kLanes <= dim; c += kLanes) {
    accumulate_columns<kCount, 1>(d, weights, values + c, dim, n, acc + c);
  }
  for (; c < dim; c += kQuarterLanes) {
    accumulate_columns<kCount, 1>(Quarter(), weights, values + c, dim, n, acc + c);
  }
}

// Turns the raw products of one query into weights exp(score - max), in place.
inline void softmax(float scale, float cap, const ActiveQuery& query, float* scores, float* max,
                    float* sum) {
  const F32 d;
  const auto lo = hn::Set(d, static_cast<float>(query.lo));
  const auto hi = hn::Set(d, static_cast<float>(query.hi));
  const auto gain = hn::Set(d, query.log_gain);
  const auto one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f);
  // Lanes stand at fixed entries of the span, so the sums do not depend on where lo and hi lie.
  const int64_t first = query.lo / kLanes * kLanes;
  auto largest = hn::Set(d, kNothing);
  for (int64_t j = first; j < query.hi; j += kLanes) {
    auto score = hn::Mul(hn::LoadU(d, scores + j), hn::Set(d, scale));
    if (cap > 0) {  // tanh(x) = 1 - 2 / (exp(2 x) + 1)
      const auto e = exp_f32(d, hn::Mul(score, hn::Set(d, 2.0f / cap)));
      score = hn::Mul(hn::Set(d, cap), hn::Sub(one, hn::Div(two, hn::Add(e, one))));
    }
    score = hn::Add(score, gain);
    if (j < query.lo || j + kLanes > query.hi) {
      const auto entry = hn::Iota(d, static_cast<float>(j));
      const auto visible = hn::And(hn::Ge(entry, lo), hn::Lt(entry, hi));
      score = hn::IfThenElse(visible, score, hn::Set(d, kNothing));
    }
    largest = hn::Max(largest, score);
    hn::StoreU(score, d, scores + j);
  }
  *max = hn::GetLane(hn::MaxOfLanes(d, largest));
  if (*max == kNothing) return;
  auto total = hn::Zero(d);
  for (int64_t j = first; j < query.hi; j += kLanes) {
    const auto weight = exp_bounded(d, hn::Sub(hn::LoadU(d, scores + j), hn::Set(d, *max)));
    total = hn::Add(total, weight);
    hn::StoreU(weight, d, scores + j);
  }
  *sum = hn::GetLane(hn::SumOfLanes(d, total));
}

inline float exp_scalar(float x) {
  const F32 d;
  return hn::GetLane(exp_f32(d, hn::Set(d, x)));
}

// Adds one slot of `from` to one slot of `into` by the running-maximum rule.
inline void merge_slot(const SoftmaxState& into, int64_t to, const SoftmaxState& from, int64_t slot,
                       const SoftmaxState::Width& width) {
  if (from.max[slot] == kNothing) return;
  const int64_t dim = width.head_dim;
  const float* source = from.acc + slot * dim;
  float* target = into.acc + to * dim;
  const float* source_mass = from.mass + slot * width.n_shares;
  float* target_mass = into.mass + to * width.n_shares;
  if (into.max[to] == kNothing) {
    into.max[to] = from.max[slot];
    into.sum[to] = from.sum[slot];
    std::copy_n(source, dim, target);
    std::copy_n(source_mass, width.n_shares, target_mass);
    return;
  }
  const float max = std::max(into.max[to], from.max[slot]);
  // One of them is exp(0).
  const bool kept = into.max[to] == max;
  const float other = exp_scalar((kept ? from.max[slot] : into.max[to]) - max);
  const float keep = kept ? 1.0f : other;
  const float take = kept ? other : 1.0f;
  into.max[to] = max;
  into.sum[to] = into.sum[to] * keep + from.sum[slot] * take;
  for (int64_t c = 0; c < dim; ++c) target[c] = target[c] * keep + source[c] * take;
  for (int64_t i = 0; i < width.n_shares; ++i)
    target_mass[i] = target_mass[i] * keep + source_mass[i] * take;
}

}  // namespace HWY_NAMESPACE
}  // namespace suture
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
