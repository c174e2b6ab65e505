// Products with prompts in 32-bit words: a float32 value, or two neighbouring bfloat16 values.
//
// Both sides are cut into groups of 16 words along the columns:
//   x tile   [group][16 rows of x][16 words]
//   panel    [group][16 words][16 output features]
// With bfloat16 a group of either is a matrix tile as AMX wants it.
//
// The target's .cc defines before including this file:
//   kWordElements                                        values in a word: 1 or 2
//   void pack_group(const float* values, void* words)    the words of a group of one row
#pragma once

#include "kernels/cpu/prefill_kernels.h"
#include "kernels/cpu/vectors_inl.h"

namespace suture {
namespace {

inline constexpr int64_t kGroupWords = 16;
inline constexpr int64_t kWordTileRows = 16;  // rows of x in a tile
inline constexpr int64_t kGroupBytes = kGroupWords * kWordTileRows * 4;
inline constexpr int64_t kGroupColumns = kGroupWords * kWordElements;
// Short enough that rounding stays small and two panels fit the first-level cache.
inline constexpr int64_t kStretchWords = 256;
inline constexpr int64_t kStretchBytes = kStretchWords * kWordTileRows * 4;
static_assert(kWordTileRows == kPanelRows);

inline void pack_words(const float* x, int64_t columns, bool, const PackedRowSlot& slot) {
  constexpr int64_t kStretch = kStretchWords * kWordElements;
  const int64_t padded = (columns + kColumnUnit - 1) / kColumnUnit * kColumnUnit;
  for (int64_t k = 0; k < padded; k += kGroupColumns) {
    std::byte* words = slot.tile + k / kStretch * slot.stretch_bytes +
                       k % kStretch / kGroupColumns * kGroupBytes + slot.row * kGroupWords * 4;
    const int64_t n = x == nullptr ? 0 : columns - k;
    if (n >= kGroupColumns) {
      pack_group(x + k, words);
    } else {
      float part[kGroupColumns] = {};
      if (n > 0) __builtin_memcpy(part, x + k, static_cast<size_t>(n) * sizeof(float));
      pack_group(part, words);
    }
  }
}

// A panel of float32 values [columns][16] becomes one of pairs: kPair joins two columns.
template <void (*kPair)(const float* two_columns, void* words)>
void pair_panel(const float* values, int64_t columns, std::byte* panel) {
  for (int64_t k = 0; k < columns; k += 2, panel += kPanelRows * 4) {
    kPair(values + k * kPanelRows, panel);
  }
}

constexpr PrefillKernels make_word_kernels(void (*multiply)(const PrefillBlock& block),
                                           void (*pack_panel)(const float* values, int64_t columns,
                                                              std::byte* panel) = nullptr,
                                           void (*pack_bf16)(const PlainFeatures& rows,
                                                             std::byte* panel) = nullptr) {
  PrefillKernels kernels = {.stretch = kStretchWords * kWordElements,
                            .tile_rows = kWordTileRows,
                            .x_tile_bytes = kStretchBytes,
                            .panel_bytes = kStretchBytes,
                            .pack_row = pack_words,
                            .pack_panel = pack_panel};
  kernels.pack_rows[static_cast<size_t>(DType::kBf16)] = pack_bf16;
  for (auto& each : kernels.multiply) each = multiply;
  return kernels;
}

}  // namespace
}  // namespace suture
