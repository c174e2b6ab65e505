// Products of prompts with quantised weights in 8-bit integers: weights as they are stored,
// activations in 8 bits per 32 columns. The integers' sums over a unit of 32 columns are exact;
// units are added in float32 in the order of the columns.
//
// The target's .cc defines what packed_inl.h asks for, and has AVX512_VNNI.
#pragma once

#include "kernels/cpu/packed_inl.h"
#include "kernels/cpu/prefill_kernels.h"
#include "kernels/cpu/quantise_inl.h"

namespace suture {
namespace {

inline constexpr int64_t kIntStretchUnits =
    16;  // a panel and a tile of x fit the first-level cache
inline constexpr int kIntTileRows = 8;

// Weights of signed types are moved by 128, to bytes without a sign.
inline constexpr int kByteBias = 128;

// 16 output features and 32 columns: w = scale * q + minimum, or scale * (q - 128) where signed.
struct alignas(64) WeightUnit {
  RowBytes q[8];         // quads: columns 4 i .. 4 i + 3
  RowFloats scale[2];    // of the two halves of the columns where the type is fine, else [0]
  RowFloats minimum[2];  // likewise
};

// 8 rows of x and 32 columns.
struct alignas(64) ActivationUnit {
  int8_t q[kIntTileRows][32];
  float scale[kIntTileRows];
  float sum[kIntTileRows];         // of x as rounded
  int32_t start[2][kIntTileRows];  // -128 * sum of q of each half
};
static_assert(sizeof(ActivationUnit) == 384);

inline constexpr int64_t kIntTileBytes = kIntStretchUnits * int64_t{sizeof(ActivationUnit)};
inline constexpr int64_t kIntPanelBytes = kIntStretchUnits * int64_t{sizeof(WeightUnit)};

// ---- Activations ----

// A group of 32 activations in 8 bits, written where it belongs: a copy would have to wait for the
// pieces in which it is stored.
SUTURE_INLINE void put_group(const float* x, int64_t row, ActivationUnit& unit) {
  int32_t total[2];
  quantise_group(x, 0, {unit.q[row], &unit.scale[row], &unit.sum[row], total});
  for (int half = 0; half < 2; ++half) unit.start[half][row] = -kByteBias * total[half];
}

// What the group as it was put leaves out of x.
SUTURE_INLINE void put_rest(const float* x, int64_t row, ActivationUnit& unit) {
  alignas(64) float rest[kQuantGroup];
  for (int i = 0; i < kQuantGroup; i += 8) {
    store(rest + i, load<F32x8>(x + i) - widen(unit.q[row] + i) * unit.scale[row]);
  }
  put_group(rest, row, unit);
}

inline void pack_activations(const float* x, int64_t columns, bool rest,
                             const PackedRowSlot& slot) {
  const float zeros[kQuantGroup] = {};
  for (int64_t g = 0; g < columns / kQuantGroup; ++g) {
    auto* units =
        reinterpret_cast<ActivationUnit*>(slot.tile + g / kIntStretchUnits * slot.stretch_bytes);
    const float* values = x != nullptr ? x + kQuantGroup * g : zeros;
    ActivationUnit& unit = units[g % kIntStretchUnits];
    put_group(values, slot.row, unit);
    if (rest) put_rest(values, slot.row, unit);
  }
}

// Values so large that 8 bits have nothing left for their neighbours, as the first position of some
// models has: compares the largest of each group, which set the steps of rounding, with what lies
// below half of them. The ratio is about 1 in ordinary rows, and rounding noise 1/6000 of it.
inline bool has_outliers(const float* x, int64_t columns) {
  constexpr float kRatio = 8;
  float most_squares = 0;
  F32x8 rest = {};
  for (const float* end = x + columns; x < end; x += kQuantGroup) {
    F32x8 parts[4];
    for (int i = 0; i < 4; ++i) parts[i] = absolute(load<F32x8>(x + 8 * i));
    const float most = largest(larger(larger(parts[0], parts[1]), larger(parts[2], parts[3])));
    most_squares += most * most;
    const F32x8 half = splat(most / 2);
    for (const F32x8& part : parts) {
      const F32x8 small = part < half ? part : F32x8{};
      rest = multiply_add(small, small, rest);
    }
  }
  return most_squares > kRatio * sum(rest);
}

// ---- Weights ----

template <DType kType>
void unpack_units(const std::byte* tile, int64_t columns, int64_t first, int64_t n,
                  std::byte* panel) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr auto kMove = static_cast<uint8_t>(kFormat.has_minimum ? 0 : kByteBias - kFormat.bias);
  UnitReader<kType> reader(tile, columns, 0, first);
  auto* target = reinterpret_cast<WeightUnit*>(panel);
  for (int64_t begin = 0; begin < n; begin += kFormat.units_per_head()) {
    reader.read_head();
    const int64_t units =
        n - begin < kFormat.units_per_head() ? n - begin : kFormat.units_per_head();
    for (int64_t i = 0; i < units; ++i, ++target) {
      Unit unit;
      reader.read(unit);
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) target->q[j] = unit.q[j] + kMove;
      for (int j = 0; j < kFormat.scales(); ++j) {
        target->scale[j] = kFormat.is_k ? reader.d * unit.scale[j] : unit.scale[j];
        if constexpr (kFormat.has_minimum) {
          target->minimum[j] = kFormat.is_k ? -(reader.dmin * unit.minimum[j]) : unit.minimum[j];
        }
      }
    }
  }
}

// ---- Products ----

struct UnitKind {
  bool is_signed, is_fine;
};

// Integer sums of quads [kFirst, kFirst + kCount) for each of kRows rows.
template <int kRows, int kFirst, int kCount>
SUTURE_INLINE void dot_quads_of(const WeightUnit& w, const ActivationUnit& x, int64_t row,
                                __m512i* sums) {
#pragma GCC unroll 8
  for (int i = kFirst; i < kFirst + kCount; ++i) {
    const auto q = reinterpret_cast<__m512i>(w.q[i]);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i quad = _mm512_set1_epi32(load<int32_t>(x.q[row + r] + 4 * i));
      sums[r] = _mm512_dpbusd_epi32(sums[r], q, quad);
    }
  }
}

template <UnitKind kKind, int kRows, int kHalf>
SUTURE_INLINE void add_part(const WeightUnit& w, const ActivationUnit& x, int64_t row,
                            RowFloats* sums) {
  __m512i dots[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if constexpr (!kKind.is_signed) {
      dots[r] = _mm512_setzero_si512();
    } else if constexpr (kKind.is_fine) {
      dots[r] = _mm512_set1_epi32(x.start[kHalf][row + r]);
    } else {
      dots[r] = _mm512_set1_epi32(x.start[0][row + r] + x.start[1][row + r]);
    }
  }
  dot_quads_of<kRows, 4 * kHalf, kKind.is_fine ? 4 : 8>(w, x, row, dots);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const RowFloats factor = w.scale[kHalf] * x.scale[row + r];
    sums[r] = multiply_add(_mm512_cvtepi32_ps(dots[r]), factor, sums[r]);
    if constexpr (!kKind.is_signed && !kKind.is_fine) {
      sums[r] = multiply_add(w.minimum[0], RowFloats{} + x.sum[row + r], sums[r]);
    } else if constexpr (!kKind.is_signed) {
      const float sum = static_cast<float>(x.start[kHalf][row + r]) * x.scale[row + r];
      sums[r] = multiply_add(w.minimum[kHalf], RowFloats{} + sum / -kByteBias, sums[r]);
    }
  }
}

// Into the first-level cache, if there is such a unit.
SUTURE_INLINE void fetch(const ActivationUnit* unit) {
  const auto* bytes = reinterpret_cast<const std::byte*>(unit);
  for (size_t i = 0; i < sizeof(ActivationUnit); i += 64) __builtin_prefetch(bytes + i);
}

template <UnitKind kKind, int kRows>
SUTURE_INLINE void multiply_units(const WeightUnit* w, const ActivationUnit* x, int64_t row,
                                  int64_t n, float* sums, int64_t stride) {
  RowFloats products[kRows] = {};
  for (int64_t u = 0; u < n; ++u) {
    fetch(x + u + 2);
    add_part<kKind, kRows, 0>(w[u], x[u], row, products);
    if constexpr (kKind.is_fine) add_part<kKind, kRows, 1>(w[u], x[u], row, products);
  }
  for (int r = 0; r < kRows; ++r) {
    store(sums + r * stride, load<RowFloats>(sums + r * stride) + products[r]);
  }
}

// A whole tile of x, or row by row where it is not.
template <UnitKind kKind>
void multiply_units(const PrefillBlock& block) {
  const auto* x = reinterpret_cast<const ActivationUnit*>(block.x);
  const int64_t n = block.columns / kQuantGroup;
  for (int64_t panel = 0; panel < block.n_panels; ++panel) {
    const auto* w = reinterpret_cast<const WeightUnit*>(block.panels + panel * kIntPanelBytes);
    for (int64_t first = 0; first < block.n_rows; first += kIntTileRows) {
      const ActivationUnit* tile = x + first / kIntTileRows * kIntStretchUnits;
      float* sums = block.sums + first * block.sums_stride + panel * kPanelRows;
      int64_t row = 0;
      const int64_t rows =
          block.n_rows - first < kIntTileRows ? block.n_rows - first : kIntTileRows;
      if (rows == kIntTileRows) {
        multiply_units<kKind, kIntTileRows>(w, tile, 0, n, sums, block.sums_stride);
        continue;
      }
      for (; row + 4 <= rows; row += 4) {
        multiply_units<kKind, 4>(w, tile, row, n, sums + row * block.sums_stride,
                                 block.sums_stride);
      }
      for (; row < rows; ++row) {
        multiply_units<kKind, 1>(w, tile, row, n, sums + row * block.sums_stride,
                                 block.sums_stride);
      }
    }
  }
}

// ---- The table ----

template <DType kType>
constexpr void add_type(PrefillKernels& kernels) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr auto kIndex = static_cast<size_t>(kType);
  constexpr UnitKind kKind = {.is_signed = !kFormat.has_minimum, .is_fine = kFormat.is_fine};
  kernels.unpack_tile[kIndex] = unpack_units<kType>;
  kernels.multiply[kIndex] = multiply_units<kKind>;
}

constexpr PrefillKernels make_int8_kernels() {
  PrefillKernels kernels = {.stretch = kIntStretchUnits * kQuantGroup,
                            .tile_rows = kIntTileRows,
                            .x_tile_bytes = kIntTileBytes,
                            .panel_bytes = kIntPanelBytes,
                            .pack_row = pack_activations,
                            .needs_rest = has_outliers};
  add_type<DType::kQ4_0>(kernels);
  add_type<DType::kQ4_1>(kernels);
  add_type<DType::kQ5_0>(kernels);
  add_type<DType::kQ5_1>(kernels);
  add_type<DType::kQ8_0>(kernels);
  add_type<DType::kQ2_K>(kernels);
  add_type<DType::kQ3_K>(kernels);
  add_type<DType::kQ4_K>(kernels);
  add_type<DType::kQ5_K>(kernels);
  add_type<DType::kQ6_K>(kernels);
  add_type<DType::kIq4Nl>(kernels);
  return kernels;
}

}  // namespace
}  // namespace suture
