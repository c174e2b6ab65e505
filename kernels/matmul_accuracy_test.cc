#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/test_matmul.h"

namespace suture {
namespace {

// The activations as decoding sees them: per 32 values q = round(x * 127 / max), scale max / 127.
std::vector<float> rounded_to_8_bits(const std::vector<float>& x) {
  std::vector<float> result(x.size());
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    float most = 0;
    for (size_t i = begin; i < begin + 32; ++i) most = std::max(most, std::abs(x[i]));
    for (size_t i = begin; i < begin + 32; ++i) {
      result[i] = std::nearbyint(x[i] * (127 / most)) * (most / 127);
    }
  }
  return result;
}

std::vector<float> rounded_to_bf16(const std::vector<float>& x) {
  std::vector<float> result(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double magnitude = std::abs(double{x[i]});
    const double step = magnitude > 0 ? std::ldexp(1.0, std::ilogb(magnitude) - 7) : 1;
    result[i] = static_cast<float>(std::nearbyint(x[i] / step) * step);  // ties to even
  }
  return result;
}

// What a type may subtract from q * scale: both parts enter the sums, and S below counts both.
double largest_minimum(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1: return kLargestScale;
    case DType::kQ2_K: return 15 * kLargestScale;
    case DType::kQ4_K:
    case DType::kQ5_K: return 63 * kLargestScale;
    default: return 0;
  }
}

// The way in which a product is computed.
enum class Products { kFloat, kBf16, kInt8 };

Products products_of(DType dtype, MatmulPath path, Isa isa) {
  if (path == MatmulPath::kDecode) return is_quantised(dtype) ? Products::kInt8 : Products::kFloat;
  if (dtype == DType::kF32 || isa <= Isa::kAvx512) return Products::kFloat;
  if (isa == Isa::kAmx) return Products::kBf16;
  if (is_quantised(dtype)) return Products::kInt8;
  return isa == Isa::kAvx512Bf16 ? Products::kBf16 : Products::kFloat;
}

// Bounds on |result - exact| for one element, as multiples of S = sum |x w| and u = 2^-24: what
// goes through n roundings is off by at most n u of itself, to first order. Exact is the product
// of what is left of x and w when they have been rounded for it.
double tolerance(Products products, MatmulPath path, int64_t cols, double sum_of_products) {
  const double u = std::ldexp(1.0, -24);
  const auto n = static_cast<double>(cols);
  switch (products) {
    // Products within a group, or half of one, are exact; a chain over them; five roundings in the
    // factors; bias.
    case Products::kInt8: return (n / 16 + 10) * u * sum_of_products;
    // Products are exact; a chain over a stretch of 512, then one addition for each; bias.
    case Products::kBf16: return (std::min(n, 512.0) + n / 512 + 3) * u * sum_of_products;
    case Products::kFloat: break;
  }
  // A chain for each of 32 lanes, five additions to join them; product and bias.
  if (path == MatmulPath::kDecode) return (n / 32 + 8) * u * sum_of_products;
  // 256 products in one chain, then one addition for each 256; product and bias.
  return (std::min(n, 256.0) + n / 256 + 3) * u * sum_of_products;
}

struct Operands {
  std::vector<float> x, w;
};

Operands rounded_for(Products products, const Problem& p) {
  switch (products) {
    case Products::kInt8: return {rounded_to_8_bits(p.x), p.w};
    case Products::kBf16: return {rounded_to_bf16(p.x), rounded_to_bf16(p.w)};
    case Products::kFloat: break;
  }
  return {p.x, p.w};
}

void expect_close(const Problem& p, Products products, MatmulPath path,
                  const std::vector<float>& out, int64_t n_rows) {
  const Operands operands = rounded_for(products, p);
  // Where integers are multiplied, both parts of a weight enter the sums.
  const double minimum = products == Products::kInt8 ? largest_minimum(p.dtype) : 0;
  for (int64_t r = 0; r < n_rows; ++r) {
    for (int64_t m = 0; m < p.rows; ++m) {
      double expected = p.bias[static_cast<size_t>(m)];
      double magnitude = std::abs(expected);
      double lost = 0;  // what rounding may cost: half a step of each value
      for (int64_t k = 0; k < p.cols; ++k) {
        const auto at_w = static_cast<size_t>(m * p.cols + k);
        const auto at_x = static_cast<size_t>(r * p.cols + k);
        const double w = operands.w[at_w], x = operands.x[at_x];
        expected += w * x;
        magnitude += std::abs(x) * (std::abs(w) + 2 * minimum);
        lost += std::abs(w * x - double{p.w[at_w]} * double{p.x[at_x]});
      }
      const double got = out[static_cast<size_t>(r * p.rows + m)];
      ASSERT_NEAR(got, expected, tolerance(products, path, p.cols, magnitude))
          << "cols " << p.cols << " row " << r << " feature " << m;
      ASSERT_LE(lost, 0.02 * magnitude);
    }
  }
}

TEST(MatmulTest, EveryTypePathAndTargetMatchesFloat64) {
  constexpr int64_t kRows = 19;  // of x: more than a tile of any kernel
  for (DType dtype : kWeightTypes) {
    for (int64_t cols : cols_of(dtype)) {
      const Problem problem(dtype, 133, cols, kRows);
      for (Isa isa : isas_here()) {
        for (MatmulPath path : {MatmulPath::kPrefill, MatmulPath::kDecode}) {
          SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << isa_name(isa) << " path "
                                          << static_cast<int>(path));
          expect_close(problem, products_of(dtype, path, isa), path,
                       problem.run(isa, 2, path, 0, kRows), kRows);
        }
      }
    }
  }
}

TEST(MatmulTest, PromptsReadRowsAndTilesToTheSameBits) {
  constexpr int64_t kRows = 3;
  for (DType dtype : kWeightTypes) {
    const Problem problem(dtype, 133, cols_of(dtype).back(), kRows);
    for (Isa isa : isas_here()) {
      const auto run = [&](const WeightView& view) {
        return problem.run(isa, 1, MatmulPath::kPrefill, 0, kRows, problem.bias.data(), view);
      };
      EXPECT_EQ(run(problem.weights()), run(problem.in_rows()))
          << dtype_name(dtype) << " " << isa_name(isa);
    }
  }
}

// The kernels for AMX with its instructions emulated: layout and loops, on any machine.
TEST(MatmulTest, EmulatedTilesMatchFloat64) {
  for (DType dtype : kWeightTypes) {
    for (int64_t cols : cols_of(dtype)) {
      for (int64_t n_rows : {1, 16, 19, 33}) {
        const Problem problem(dtype, 53, cols, n_rows);
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " rows " << n_rows);
        expect_close(problem, Products::kBf16, MatmulPath::kPrefill,
                     problem.run_emulated(2, 0, n_rows), n_rows);
      }
    }
  }
}

TEST(MatmulTest, EmulatedTilesGiveARowTheSameBitsInEveryBatch) {
  constexpr int64_t kRows = 35;
  const Problem problem(DType::kQ4_K, 133, 768, kRows);
  const auto all = problem.run_emulated(1, 0, kRows);
  for (int threads : {1, 3}) {
    for (int64_t n = 1; n <= 17; ++n) {
      const auto some = problem.run_emulated(threads, 17, n);
      ASSERT_TRUE(same_bits(some.data(), all.data() + 17 * problem.rows, some.size()))
          << "threads " << threads << " rows " << n;
    }
  }
}

// A row whose largest value would leave nothing of its neighbours in 8 bits keeps them.
TEST(MatmulTest, PromptsKeepWhatLiesBesideOutliers) {
  constexpr int64_t kRows = 18, kCols = 768;
  Problem problem(DType::kQ4_K, 40, kCols, kRows);
  for (int64_t r = 0; r < kRows; ++r) {
    float* x = problem.x.data() + r * kCols;
    std::fill(x + 32, x + kCols, 0.0f);
    if (r % 2 == 1) x[7] = 1000;
  }
  for (Isa isa : isas_here()) {
    if (products_of(problem.dtype, MatmulPath::kPrefill, isa) != Products::kInt8) continue;
    const auto out = problem.run(isa, 2, MatmulPath::kPrefill, 0, kRows);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t m = 0; m < problem.rows; ++m) {
        double expected = problem.bias[static_cast<size_t>(m)], tolerance = 1e-4;
        for (int64_t k = 0; k < 32; ++k) {
          const double w = problem.w[static_cast<size_t>(m * kCols + k)];
          const double x = problem.x[static_cast<size_t>(r * kCols + k)];
          expected += w * x;
          // Half a step: of the second part, 1000 / 254 / 127, and of rows without an outlier.
          tolerance += 0.016 * std::abs(w) + 1e-6 * std::abs(w * x);
        }
        ASSERT_NEAR(out[static_cast<size_t>(r * problem.rows + m)], expected, tolerance)
            << isa_name(isa) << " row " << r << " feature " << m;
      }
    }
  }
}

}  // namespace
}  // namespace suture
