// What tests of the matrix product share: random weights of any type and their products.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_matmul.h"
#include "kernels/cpu/cpu_stream.h"
#include "kernels/cpu/prefill.h"
#include "kernels/matmul.h"
#include "kernels/packed_weights.h"
#include "kernels/test_amx_kernels.h"

namespace suture {

inline constexpr DType kWeightTypes[] = {DType::kF32,  DType::kF16,  DType::kBf16, DType::kQ4_0,
                                         DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                         DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K,
                                         DType::kQ6_K, DType::kIq4Nl};

inline std::vector<Isa> isas_here() {
  std::vector<Isa> isas;
  for (Isa isa : kAllIsas) {
    if (isa <= best_isa()) isas.push_back(isa);
  }
  return isas;
}

inline bool same_bits(const float* a, const float* b, size_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

inline uint16_t half_of(float value) {  // for normal halves only
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | (((bits >> 13) - (112u << 10)) & 0x7fff));
}

// Where a block holds half precision numbers.
inline std::vector<int64_t> half_offsets(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kIq4Nl:
    case DType::kQ8_0: return {0};
    case DType::kQ2_K: return {80, 82};
    case DType::kQ3_K: return {108};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K: return {0, 2};
    case DType::kQ6_K: return {208};
    default: return {};
  }
}

inline constexpr float kLargestScale = 0.1f;

// Random weights, with their values in float32, and rows to multiply them with.
struct Problem {
  DType dtype;
  int64_t rows, cols, n_rows;
  std::vector<std::byte> blocks;
  std::vector<std::byte> tiles;  // the same packed, if the type is
  std::vector<float> w;          // [rows][cols]
  std::vector<float> x;          // [n_rows][cols]
  std::vector<float> bias;       // [rows]

  Problem(DType type, int64_t n_features, int64_t n_cols, int64_t n)
      : dtype(type), rows(n_features), cols(n_cols), n_rows(n) {
    std::mt19937 random(static_cast<uint32_t>(1000 * static_cast<int>(dtype) + cols));
    std::normal_distribution<float> normal;
    blocks.resize(static_cast<size_t>(dtype_bytes(dtype, rows * cols).value()));
    for (std::byte& b : blocks) b = static_cast<std::byte>(random());
    const DTypeInfo& info = dtype_info(dtype);
    for (int64_t at = 0; at < std::ssize(blocks); at += info.block_bytes) {
      std::byte* block = blocks.data() + at;
      for (int64_t offset : half_offsets(dtype)) {
        const float size = std::min(0.01f + 0.02f * std::abs(normal(random)), kLargestScale);
        const uint16_t scale = half_of(std::copysign(size, normal(random)));
        std::memcpy(block + offset, &scale, 2);
      }
      const float value = normal(random);
      if (dtype == DType::kF32) std::memcpy(block, &value, 4);
      if (dtype == DType::kBf16) std::memcpy(block, reinterpret_cast<const char*>(&value) + 2, 2);
    }
    pack();
    w.resize(static_cast<size_t>(rows * cols));
    EXPECT_TRUE(dequantise(dtype, blocks.data(), rows * cols, w.data()).has_value());
    x.resize(static_cast<size_t>(n_rows * cols));
    for (float& value : x) value = normal(random);
    bias.resize(static_cast<size_t>(rows));
    for (float& value : bias) value = normal(random);
  }

  void pack() {
    if (!is_packable(dtype)) return;
    tiles.resize(static_cast<size_t>(packed_bytes(dtype, rows, cols).value()));
    const WeightView matrix = {dtype, blocks.data(), rows, cols};
    EXPECT_TRUE(pack_tiles(matrix, 0, (rows + kPackedRows - 1) / kPackedRows, tiles.data()));
  }

  // What the kernels read: tiles, or rows where there are none.
  WeightView weights() const {
    return tiles.empty() ? in_rows()
                         : WeightView{dtype, tiles.data(), rows, cols, WeightLayout::kTiles};
  }
  WeightView in_rows() const { return {dtype, blocks.data(), rows, cols}; }

  // First `n` rows from row `from` on: [n][rows].
  std::vector<float> run(Isa isa, int threads, MatmulPath path, int64_t from, int64_t n,
                         bool with_bias = true) const {
    return run(isa, threads, path, from, n, with_bias ? bias.data() : nullptr, weights());
  }

  std::vector<float> run(Isa isa, int threads, MatmulPath path, int64_t from, int64_t n,
                         const float* some_bias, const WeightView& view) const {
    std::vector<float> out(static_cast<size_t>(n * rows), -1e30f);
    CpuStream stream(threads, isa);
    const Status status = matmul(stream, {.x = x.data() + from * cols,
                                          .w = view,
                                          .bias = some_bias,
                                          .out = out.data(),
                                          .n_rows = n,
                                          .path = path});
    EXPECT_TRUE(status.has_value()) << status.error().message();
    return out;
  }

  // The same for a prompt, with the kernels for AMX over emulated tiles.
  std::vector<float> run_emulated(int threads, int64_t from, int64_t n) const {
    std::vector<float> out(static_cast<size_t>(n * rows), -1e30f);
    CpuStream stream(threads, Isa::kScalar);
    const MatmulPart part = {weights(), bias.data(), out.data()};
    EXPECT_TRUE(prefill_with(stream, emulated_amx_kernels(),
                             {.x = x.data() + from * cols, .parts = {&part, 1}, .n_rows = n}));
    return out;
  }
};

// Columns to try: below, at and beyond the units in which the kernels work.
inline std::vector<int64_t> cols_of(DType dtype) {
  if (!is_quantised(dtype)) return {1, 7, 33, 64, 300, 521};
  if (dtype_info(dtype).block_elements == 32) return {32, 96, 256, 288, 544, 1056};
  return {256, 768};
}

}  // namespace suture
