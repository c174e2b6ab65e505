#include "kernels/packed_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_matmul.h"
#include "kernels/test_matmul.h"

namespace suture {
namespace {

constexpr DType kPackable[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                               DType::kQ8_0, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,
                               DType::kQ5_K, DType::kQ6_K, DType::kIq4Nl};

std::vector<std::byte> random_blocks(DType dtype, int64_t elements) {
  std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(dtype, elements).value()));
  std::mt19937 random(static_cast<uint32_t>(dtype));
  for (std::byte& b : bytes) {
    b = static_cast<std::byte>(random());
    // A half's exponent lies in its second byte: bit 6 clear keeps it finite.
    b &= std::byte{0xbf};
  }
  return bytes;
}

// Rows in tiles unpack to the values of the rows: bit for bit, in every target, for every type.
TEST(PackedWeightsTest, UnpackToTheValuesOfTheRows) {
  constexpr int64_t kRows = 37;
  for (DType dtype : kPackable) {
    for (int64_t cols : {int64_t{256}, int64_t{768}, int64_t{288}}) {
      if (cols % dtype_info(dtype).block_elements != 0) continue;
      const auto blocks = random_blocks(dtype, kRows * cols);
      std::vector<float> expected(static_cast<size_t>(kRows * cols));
      ASSERT_TRUE(dequantise(dtype, blocks.data(), kRows * cols, expected.data()));
      const int64_t tile_bytes = packed_tile_bytes(dtype, cols).value();
      std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(dtype, kRows, cols).value()));
      ASSERT_EQ(std::ssize(packed), 3 * tile_bytes);
      ASSERT_TRUE(pack_tiles({dtype, blocks.data(), kRows, cols}, 0, 3, packed.data()));
      for (Isa isa : isas_here()) {
        std::vector<float> panel(static_cast<size_t>(16 * cols));
        for (int64_t row = 0; row < 48; ++row) {
          if (row % 16 == 0) {
            matmul_kernels(isa).unpack_tile[static_cast<size_t>(dtype)](
                packed.data() + row / 16 * tile_bytes, cols, 0, cols / 32, panel.data());
          }
          for (int64_t k = 0; k < cols; ++k) {
            const float got = panel[static_cast<size_t>(16 * k + row % 16)];
            const float want = row < kRows ? expected[static_cast<size_t>(row * cols + k)] : 0.0f;
            ASSERT_EQ(got, want) << dtype_name(dtype) << " " << isa_name(isa) << " row " << row
                                 << " column " << k << " of " << cols;
          }
        }
      }
    }
  }
}

TEST(PackedWeightsTest, APartOfATileUnpacksAlone) {
  for (DType dtype : kPackable) {
    const auto blocks = random_blocks(dtype, 16 * 768);
    std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(dtype, 16, 768).value()));
    ASSERT_TRUE(pack_tiles({dtype, blocks.data(), 16, 768}, 0, 1, packed.data()));
    for (Isa isa : isas_here()) {
      const auto unpack = matmul_kernels(isa).unpack_tile[static_cast<size_t>(dtype)];
      std::vector<float> whole(16 * 768), part(16 * 256);
      unpack(packed.data(), 768, 0, 24, whole.data());
      unpack(packed.data(), 768, 16, 8, part.data());
      EXPECT_EQ(std::memcmp(whole.data() + 16 * 512, part.data(), part.size() * 4), 0)
          << dtype_name(dtype) << " " << isa_name(isa);
    }
  }
}

TEST(PackedWeightsTest, TilesPackOneByOneAsTogether) {
  const auto blocks = random_blocks(DType::kQ6_K, 40 * 256);
  const WeightView matrix = {DType::kQ6_K, blocks.data(), 40, 256};
  const int64_t tile_bytes = packed_tile_bytes(DType::kQ6_K, 256).value();
  std::vector<std::byte> together(static_cast<size_t>(3 * tile_bytes)), apart(together.size());
  ASSERT_TRUE(pack_tiles(matrix, 0, 3, together.data()));
  for (int64_t tile = 0; tile < 3; ++tile) {
    ASSERT_TRUE(pack_tiles(matrix, tile, tile + 1, apart.data() + tile * tile_bytes));
  }
  EXPECT_EQ(together, apart);
}

// The whole of a model is packed: more than a few percent would be weights kept twice.
TEST(PackedWeightsTest, TakeAboutTheSizeOfTheRows) {
  for (DType dtype : kPackable) {
    const auto packed = static_cast<double>(packed_bytes(dtype, 1536, 8192).value());
    const auto rows = static_cast<double>(dtype_bytes(dtype, 1536 * 8192).value());
    // Codes of 4 and 6 bits take a byte: 4 bytes of 144 or 176, and of 110 in q3_k; of 84 in q2_k
    // 16. Chunks that are filled up to 64 bytes lose 2 more.
    EXPECT_LE(packed / rows, dtype == DType::kQ2_K   ? 1.2
                             : dtype == DType::kQ3_K ? 1.06
                                                     : 1.03)
        << dtype_name(dtype);
    EXPECT_GE(packed / rows, 1.0) << dtype_name(dtype);
  }
}

TEST(PackedWeightsTest, RefusesWhatCannotBePacked) {
  std::vector<std::byte> bytes(4096);
  EXPECT_FALSE(is_packable(DType::kF16));
  EXPECT_FALSE(packed_bytes(DType::kF32, 16, 256));
  EXPECT_FALSE(packed_bytes(DType::kQ4_K, 16, 128));
  EXPECT_FALSE(packed_bytes(DType::kQ4_K, -1, 256));
  EXPECT_FALSE(packed_bytes(DType::kQ4_K, INT64_MAX, 256));
  const WeightView matrix = {DType::kQ4_0, bytes.data(), 16, 32};
  EXPECT_FALSE(pack_tiles(matrix, 0, 2, bytes.data()));
  EXPECT_FALSE(pack_tiles(matrix, 1, 0, bytes.data()));
  EXPECT_FALSE(pack_tiles(matrix, 0, 1, nullptr));
}

}  // namespace
}  // namespace suture
