#include "fusion/dense_algebra.h"

#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

namespace suture {
namespace {

// [rows][columns] of small whole numbers, so that sums are exact in any order.
template <typename T>
std::vector<T> whole_numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> any(-8, 8);
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(any(random)));
  return values;
}

constexpr int64_t kRows = 130, kLeft = 64, kRight = 192;

std::vector<float> product_of(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> out(static_cast<size_t>(kLeft * kRight), -1);
  multiply_transposed_left({a.data(), kRows, kLeft, kLeft}, {b.data(), kRows, kRight, kRight},
                           {out.data(), kLeft, kRight, kRight});
  return out;
}

TEST(DenseAlgebra, ProductsAreSumsOfProducts) {
  const auto a = whole_numbers<float>(kRows * kLeft, 1);
  const auto b = whole_numbers<float>(kRows * kRight, 2);
  const auto left = product_of(a, b);
  for (int64_t i = 0; i < kLeft; ++i)
    for (int64_t j = 0; j < kRight; ++j) {
      float sum = 0;
      for (int64_t row = 0; row < kRows; ++row)
        sum += a[static_cast<size_t>(row * kLeft + i)] * b[static_cast<size_t>(row * kRight + j)];
      ASSERT_EQ(left[static_cast<size_t>(i * kRight + j)], sum) << i << " " << j;
    }
}

// As many callers as like, all at the same moment.
TEST(DenseAlgebra, ThreadsSideBySideGetWhatOneGets) {
  constexpr int kThreads = 4, kTimes = 200;
  const auto a = whole_numbers<float>(kRows * kLeft, 3);
  const auto b = whole_numbers<float>(kRows * kRight, 4);
  const auto expected = product_of(a, b);
  std::barrier together(kThreads);
  std::vector<int> wrong(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int& count : wrong)
      threads.emplace_back([&] {
        for (int i = 0; i < kTimes; ++i) {
          together.arrive_and_wait();
          count += product_of(a, b) != expected ? 1 : 0;
        }
      });
  }
  EXPECT_EQ(wrong, std::vector<int>(kThreads));
}

TEST(DenseAlgebra, WhatIsFactoredCanBeSolved) {
  constexpr int64_t kSize = 24, kSolved = 3;
  const auto half = whole_numbers<double>(kSize * kSize, 5);
  std::vector<double> matrix(static_cast<size_t>(kSize * kSize));
  for (int64_t i = 0; i < kSize; ++i) matrix[static_cast<size_t>(i * (kSize + 1))] = 1;
  multiply_transposed_right(1, {half.data(), kSize, kSize, kSize},
                            {half.data(), kSize, kSize, kSize}, 1,
                            {matrix.data(), kSize, kSize, kSize});
  const auto expected = whole_numbers<double>(kSolved * kSize, 6);
  std::vector<double> rows(static_cast<size_t>(kSolved * kSize));
  multiply_transposed_right(1, {expected.data(), kSolved, kSize, kSize},
                            {matrix.data(), kSize, kSize, kSize}, 0,
                            {rows.data(), kSolved, kSize, kSize});
  ASSERT_TRUE(factor({matrix.data(), kSize, kSize, kSize}));
  solve({matrix.data(), kSize, kSize, kSize}, {rows.data(), kSolved, kSize, kSize});
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], expected[i], 1e-9);
}

TEST(DenseAlgebra, WhatIsNotPositiveIsNotFactored) {
  std::vector<double> matrix = {1, 2, 2, 1};
  EXPECT_FALSE(factor({matrix.data(), 2, 2, 2}));
}

TEST(DenseAlgebra, KernelsForAnUnknownProcessorAreNamedByItsInstructions) {
  EXPECT_STREQ(faster_kernels("Prescott", true, true), "SkylakeX");
  EXPECT_STREQ(faster_kernels("Nehalem", true, false), "Haswell");
  EXPECT_EQ(faster_kernels("Prescott", false, false), nullptr);
  EXPECT_EQ(faster_kernels("Haswell", true, true), nullptr);
  EXPECT_EQ(faster_kernels("Cooperlake", true, true), nullptr);
}

}  // namespace
}  // namespace suture
