#include "kernels/dtype.h"

#include <gtest/gtest.h>

#include <limits>

namespace suture {
namespace {

TEST(DTypeTest, SizesAreThoseOfTheGgufFormat) {
  EXPECT_EQ(dtype_bytes(DType::kF32, 3), 12);
  EXPECT_EQ(dtype_bytes(DType::kF16, 3), 6);
  EXPECT_EQ(dtype_bytes(DType::kBf16, 3), 6);
  EXPECT_EQ(dtype_bytes(DType::kI64, 3), 24);
  // One half per block and, for q4_1, a second; then the packed bits.
  EXPECT_EQ(dtype_bytes(DType::kQ4_0, 64), 2 * (2 + 32 * 4 / 8));
  EXPECT_EQ(dtype_bytes(DType::kQ4_1, 64), 2 * (2 + 2 + 32 * 4 / 8));
  EXPECT_EQ(dtype_bytes(DType::kQ5_0, 64), 2 * (2 + 32 * 5 / 8));
  EXPECT_EQ(dtype_bytes(DType::kQ5_1, 64), 2 * (2 + 2 + 32 * 5 / 8));
  EXPECT_EQ(dtype_bytes(DType::kQ8_0, 64), 2 * (2 + 32));
  EXPECT_EQ(dtype_bytes(DType::kIq4Nl, 64), 2 * (2 + 32 * 4 / 8));
  // Super-blocks of 256: two halves and 16 six-bit numbers; q6_k one half and 16 bytes, q3_k one
  // half and 16 six-bit numbers, q2_k two halves and 16 bytes.
  EXPECT_EQ(dtype_bytes(DType::kQ2_K, 512), 2 * (4 + 16 + 256 * 2 / 8));
  EXPECT_EQ(dtype_bytes(DType::kQ3_K, 512), 2 * (2 + 12 + 256 * 3 / 8));
  EXPECT_EQ(dtype_bytes(DType::kQ4_K, 512), 2 * (4 + 12 + 256 * 4 / 8));
  EXPECT_EQ(dtype_bytes(DType::kQ5_K, 512), 2 * (4 + 12 + 256 * 5 / 8));
  EXPECT_EQ(dtype_bytes(DType::kQ6_K, 512), 2 * (2 + 16 + 256 * 6 / 8));
}

TEST(DTypeTest, PartBlocksNegativesAndOverflowHaveNoSize) {
  EXPECT_EQ(dtype_bytes(DType::kQ4_K, 255), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kQ8_0, 16), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kF32, -1), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kF32, std::numeric_limits<int64_t>::max()), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kQ4_1, 0), 0);
}

TEST(DTypeTest, NamesAndKinds) {
  EXPECT_EQ(dtype_name(DType::kQ6_K), "q6_k");
  EXPECT_EQ(dtype_name(DType::kBf16), "bf16");
  EXPECT_TRUE(is_quantised(DType::kQ4_0));
  EXPECT_FALSE(is_quantised(DType::kF16));
  EXPECT_FALSE(is_quantised(DType::kI32));
  EXPECT_TRUE(is_weight(DType::kF32));
  EXPECT_TRUE(is_weight(DType::kIq4Nl));
  EXPECT_FALSE(is_weight(DType::kI64));
  EXPECT_EQ(known_weight_types(),
            "f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl");
}

}  // namespace
}  // namespace suture
