// Word products (prefill_words_inl.h) with vector instructions: a register tile of some rows of x
// by some panels.
//
// The target's .cc defines, besides what prefill_words_inl.h asks for:
//   Wide                                       its widest float vector
//   Wide broadcast(float word)
//   Wide add_products(Wide x, Wide w, Wide sum)  sum + the products of each pair of words
//   kRowsTogether, kPanelsTogether             of a register tile
#pragma once

#include "kernels/cpu/prefill_words_inl.h"

namespace suture {
namespace {

inline constexpr int64_t kLanes = sizeof(Wide) / sizeof(float);
inline constexpr int kParts = kPanelRows / kLanes;  // vectors of a panel

// x: a row of a tile, and kRows - 1 more below it.
template <int kRows, int kPanels>
SUTURE_INLINE void multiply_rows(const PrefillBlock& block, const std::byte* x,
                                 const std::byte* panel, float* sums) {
  Wide products[kRows][kPanels * kParts] = {};
  for (int64_t k = 0; k < block.columns; k += kGroupColumns) {
#pragma GCC unroll 2
    for (int64_t word = 0; word < kGroupWords; ++word, x += 4, panel += kPanelRows * 4) {
      Wide w[kPanels * kParts];
#pragma GCC unroll 4
      for (int i = 0; i < kPanels * kParts; ++i) {
        w[i] = load<Wide>(panel + i / kParts * kStretchBytes + i % kParts * sizeof(Wide));
      }
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        const Wide xr = broadcast(load<float>(x + r * kGroupWords * 4));
#pragma GCC unroll 4
        for (int i = 0; i < kPanels * kParts; ++i) {
          products[r][i] = add_products(xr, w[i], products[r][i]);
        }
      }
    }
    x += kGroupBytes - kGroupWords * 4;
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kPanels * kParts; ++i) {
      float* target = sums + r * block.sums_stride + i * kLanes;
      store(target, load<Wide>(target) + products[r][i]);
    }
  }
}

// Exactly n rows, up to kRows.
template <int kRows, int kPanels>
void multiply_up_to(int64_t n, const PrefillBlock& block, const std::byte* x,
                    const std::byte* panel, float* sums) {
  if constexpr (kRows > 1) {
    if (n < kRows) return multiply_up_to<kRows - 1, kPanels>(n, block, x, panel, sums);
  }
  multiply_rows<kRows, kPanels>(block, x, panel, sums);
}

template <int kPanels>
void multiply_panels(const PrefillBlock& block, int64_t panel) {
  const std::byte* w = block.panels + panel * kStretchBytes;
  for (int64_t tile = 0; tile < block.n_rows; tile += kWordTileRows) {
    const std::byte* x = block.x + tile / kWordTileRows * kStretchBytes;
    const int64_t rows = block.n_rows - tile < kWordTileRows ? block.n_rows - tile : kWordTileRows;
    for (int64_t r = 0; r < rows; r += kRowsTogether) {
      const int64_t n = rows - r < kRowsTogether ? rows - r : kRowsTogether;
      float* sums = block.sums + (tile + r) * block.sums_stride + panel * kPanelRows;
      multiply_up_to<kRowsTogether, kPanels>(n, block, x + r * kGroupWords * 4, w, sums);
    }
  }
}

inline void multiply_words(const PrefillBlock& block) {
  int64_t panel = 0;
  for (; panel + kPanelsTogether <= block.n_panels; panel += kPanelsTogether) {
    multiply_panels<kPanelsTogether>(block, panel);
  }
  for (; panel < block.n_panels; ++panel) multiply_panels<1>(block, panel);
}

}  // namespace
}  // namespace suture
