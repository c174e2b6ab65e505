// Word products (prefill_words_inl.h) with matrix tiles: 2 x 2 tiles of 16 x 16 sums, so that each
// tile that is loaded meets two others.
//
// `Tiles` are the instructions (amx_tiles.h) or an emulation of them:
//   Tiles()                         a thread's tiles come to be, with 16 rows of 64 bytes; ~Tiles()
//                                   gives them back
//   load<kTile>(memory, stride)     16 rows of 64 bytes, `stride` bytes apart
//   store<kTile>(memory, stride)
//   multiply<kSum, kX, kW>()        sum[r][m] += pairs of bfloat16 x[r][k] . w[k][m]
#pragma once

#include "kernels/cpu/prefill_words_inl.h"

namespace suture {
namespace {

// Tiles 0 to 3 hold sums [row tile][panel], 4 and 5 x, 6 and 7 panels.
template <typename Tiles, int kRowTiles, int kPanels>
void multiply_tiles(Tiles& tiles, const PrefillBlock& block, int64_t row_tile, int64_t panel) {
  static_assert(kWordElements == 2 && kRowTiles <= 2 && kPanels <= 2);
  constexpr int64_t kLine = kGroupWords * 4;
  const std::byte* x = block.x + row_tile * kStretchBytes;
  const std::byte* w = block.panels + panel * kStretchBytes;
  float* sums = block.sums + row_tile * kWordTileRows * block.sums_stride + panel * kPanelRows;
  float* const below = sums + kWordTileRows * block.sums_stride;
  const int64_t stride = block.sums_stride * static_cast<int64_t>(sizeof(float));
  tiles.template load<0>(sums, stride);
  if constexpr (kPanels == 2) tiles.template load<1>(sums + kPanelRows, stride);
  if constexpr (kRowTiles == 2) tiles.template load<2>(below, stride);
  if constexpr (kRowTiles == 2 && kPanels == 2) tiles.template load<3>(below + kPanelRows, stride);
  for (int64_t k = 0; k < block.columns; k += kGroupColumns, x += kGroupBytes, w += kGroupBytes) {
    tiles.template load<4>(x, kLine);
    tiles.template load<6>(w, kLine);
    tiles.template multiply<0, 4, 6>();
    if constexpr (kPanels == 2) {
      tiles.template load<7>(w + kStretchBytes, kLine);
      tiles.template multiply<1, 4, 7>();
    }
    if constexpr (kRowTiles == 2) {
      tiles.template load<5>(x + kStretchBytes, kLine);
      tiles.template multiply<2, 5, 6>();
    }
    if constexpr (kRowTiles == 2 && kPanels == 2) tiles.template multiply<3, 5, 7>();
  }
  tiles.template store<0>(sums, stride);
  if constexpr (kPanels == 2) tiles.template store<1>(sums + kPanelRows, stride);
  if constexpr (kRowTiles == 2) tiles.template store<2>(below, stride);
  if constexpr (kRowTiles == 2 && kPanels == 2) tiles.template store<3>(below + kPanelRows, stride);
}

template <typename Tiles, int kPanels>
void multiply_panels(Tiles& tiles, const PrefillBlock& block, int64_t panel) {
  const int64_t row_tiles = (block.n_rows + kWordTileRows - 1) / kWordTileRows;
  int64_t tile = 0;
  for (; tile + 2 <= row_tiles; tile += 2) {
    multiply_tiles<Tiles, 2, kPanels>(tiles, block, tile, panel);
  }
  if (tile < row_tiles) multiply_tiles<Tiles, 1, kPanels>(tiles, block, tile, panel);
}

template <typename Tiles>
void multiply_amx(const PrefillBlock& block) {
  Tiles tiles;
  int64_t panel = 0;
  for (; panel + 2 <= block.n_panels; panel += 2) multiply_panels<Tiles, 2>(tiles, block, panel);
  if (panel < block.n_panels) multiply_panels<Tiles, 1>(tiles, block, panel);
}

}  // namespace
}  // namespace suture
