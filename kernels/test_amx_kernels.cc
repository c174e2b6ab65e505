#include "kernels/test_amx_kernels.h"

#include <gtest/gtest.h>

#include <cstring>

namespace suture {
namespace {

constexpr int kWordElements = 2;

// To the nearest, ties to even. Where the bits are a NaN's, what comes out is not looked at.
uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float from_bf16(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

void pack_group(const float* values, void* words) {
  uint16_t halves[32];
  for (int i = 0; i < 32; ++i) halves[i] = to_bf16(values[i]);
  std::memcpy(words, halves, sizeof(halves));
}

void pair_columns(const float* columns, void* words) {
  uint16_t halves[32];
  for (int i = 0; i < 16; ++i) {
    halves[2 * i] = to_bf16(columns[i]);
    halves[2 * i + 1] = to_bf16(columns[16 + i]);
  }
  std::memcpy(words, halves, sizeof(halves));
}

}  // namespace
}  // namespace suture

#include "kernels/cpu/prefill_amx_inl.h"

namespace suture {
namespace {

// Tiles of 16 rows of 64 bytes, as Intel's manual describes the instructions.
class EmulatedTiles {
 public:
  EmulatedTiles() { ++alive; }
  EmulatedTiles(const EmulatedTiles&) = delete;
  EmulatedTiles& operator=(const EmulatedTiles&) = delete;
  ~EmulatedTiles() { --alive; }

  template <int kTile>
  void load(const void* memory, int64_t stride) {
    for (int64_t row = 0; row < 16; ++row) {
      std::memcpy(tiles_[kTile][row], static_cast<const std::byte*>(memory) + row * stride, 64);
    }
  }

  template <int kTile>
  void store(void* memory, int64_t stride) const {
    for (int64_t row = 0; row < 16; ++row) {
      std::memcpy(static_cast<std::byte*>(memory) + row * stride, tiles_[kTile][row], 64);
    }
  }

  // Even and odd products are summed apart, then together, then added.
  template <int kSum, int kX, int kW>
  void multiply() {
    static_assert(kSum != kX && kSum != kW && kX != kW);
    for (int r = 0; r < 16; ++r) {
      for (int m = 0; m < 16; ++m) {
        float even = 0, odd = 0;
        for (int k = 0; k < 16; ++k) {
          even += half(kX, r, 2 * k) * half(kW, k, 2 * m);
          odd += half(kX, r, 2 * k + 1) * half(kW, k, 2 * m + 1);
        }
        float sum;
        std::memcpy(&sum, tiles_[kSum][r] + 4 * m, 4);
        sum += even + odd;
        std::memcpy(tiles_[kSum][r] + 4 * m, &sum, 4);
      }
    }
  }

  static thread_local int alive;  // a thread has one set of tiles

 private:
  float half(int tile, int row, int element) const {
    uint16_t bits;
    std::memcpy(&bits, tiles_[tile][row] + 2 * element, 2);
    return from_bf16(bits);
  }

  std::byte tiles_[8][16][64];
};

thread_local int EmulatedTiles::alive = 0;

void multiply_emulated(const PrefillBlock& block) {
  EXPECT_EQ(EmulatedTiles::alive, 0);
  multiply_amx<EmulatedTiles>(block);
  EXPECT_EQ(EmulatedTiles::alive, 0);
}

}  // namespace

const PrefillKernels& emulated_amx_kernels() {
  static constexpr PrefillKernels kKernels =
      make_word_kernels(multiply_emulated, pair_panel<pair_columns>);
  return kKernels;
}

}  // namespace suture
