#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/test_kv.h"
#include "kernels/test_targets.h"

namespace suture {
namespace {

TEST(GatedSiluTest, MatchesFormulaOverTheWholeRange) {
  for_each_target([] {
    std::vector<float> gate;
    for (int i = -120'000; i <= 120'000; i += 7) gate.push_back(static_cast<float>(i) / 1000);
    std::vector<float> up(gate.size(), 1.5f), out(gate.size());
    const int64_t n = std::ssize(gate);
    ASSERT_TRUE(gated_silu(*cpu_stream(2), gate.data(), up.data(), n, out.data()).has_value());
    for (size_t i = 0; i < gate.size(); ++i) {
      const double x = gate[i];
      const double expected = x / (1 + std::exp(-x)) * 1.5;
      ASSERT_NEAR(out[i], expected, 4e-7 * std::abs(expected) + 1e-35) << x;
    }
  });
}

TEST(GatedSiluTest, NanStaysNanAndInfinitiesHaveTheirLimits) {
  for_each_target([] {
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> gate = {std::nanf(""), infinity, 0, -1000};
    const std::vector<float> up(4, 1.0f);
    ASSERT_TRUE(gated_silu(*cpu_stream(1), gate.data(), up.data(), 4, gate.data()).has_value());
    EXPECT_TRUE(std::isnan(gate[0]));
    EXPECT_EQ(gate[1], infinity);
    EXPECT_EQ(gate[2], 0);
    EXPECT_EQ(gate[3], 0);
  });
}

TEST(GatedSiluTest, EachValueHasTheSameBitsInAnyCompany) {
  std::mt19937 random(1);
  const auto gate = random_values(random, 20'003), up = random_values(random, 20'003);
  std::vector<float> all(gate.size()), single(gate.size());
  ASSERT_TRUE(gated_silu(*cpu_stream(3), gate.data(), up.data(), 20'003, all.data()).has_value());
  auto stream = cpu_stream(1);
  for (size_t i = 0; i < gate.size(); ++i) {
    ASSERT_TRUE(gated_silu(*stream, &gate[i], &up[i], 1, &single[i]).has_value());
  }
  EXPECT_EQ(all, single);
}

// The tanh form and the exact one with erf differ by up to 5e-4; this is the tanh form.
TEST(GatedGeluTanhTest, MatchesFormulaOverTheWholeRange) {
  for_each_target([] {
    std::vector<float> gate;
    for (int i = -120'000; i <= 120'000; i += 7) gate.push_back(static_cast<float>(i) / 1000);
    std::vector<float> up(gate.size(), 1.5f), out(gate.size());
    const int64_t n = std::ssize(gate);
    ASSERT_TRUE(gated_gelu_tanh(*cpu_stream(2), gate.data(), up.data(), n, out.data()));
    double from_erf = 0;  // largest difference
    for (size_t i = 0; i < gate.size(); ++i) {
      const double x = gate[i];
      const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      // 1 + tanh(u), without the cancellation that it has for large negative u.
      const double expected = 1.5 * x / (1 + std::exp(-2 * u));
      ASSERT_NEAR(out[i], expected, 2e-6 * std::abs(expected) + 2e-7) << x;
      const double exact = 1.5 * x * 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
      from_erf = std::max(from_erf, std::abs(out[i] - exact));
    }
    EXPECT_GT(from_erf, 5e-4);
  });
}

TEST(GatedGeluTanhTest, NanStaysNanAndTheEndsHaveTheirLimits) {
  for_each_target([] {
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> gate = {std::nanf(""), infinity, 0, -1e30f};
    const std::vector<float> up(4, 1.0f);
    ASSERT_TRUE(gated_gelu_tanh(*cpu_stream(1), gate.data(), up.data(), 4, gate.data()));
    EXPECT_TRUE(std::isnan(gate[0]));
    EXPECT_EQ(gate[1], infinity);
    EXPECT_EQ(gate[2], 0);
    EXPECT_EQ(gate[3], 0);
  });
}

TEST(SoftCapTest, MatchesFormulaAndStaysBelowTheCap) {
  for_each_target([] {
    std::vector<float> x;
    for (int i = -90'000; i <= 90'000; i += 13) x.push_back(static_cast<float>(i) / 1000);
    std::vector<float> capped = x;
    ASSERT_TRUE(soft_cap(*cpu_stream(2), capped.data(), std::ssize(capped), 30.0f));
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(capped[i], 30 * std::tanh(static_cast<double>(x[i]) / 30), 1e-5) << x[i];
      ASSERT_LE(std::abs(capped[i]), 30);
    }
  });
}

TEST(AddTest, AddsEveryValue) {
  for_each_target([] {
    std::mt19937 random(2);
    const auto x = random_values(random, 70'001), y = random_values(random, 70'001);
    std::vector<float> sum = x;
    ASSERT_TRUE(add(*cpu_stream(2), sum.data(), y.data(), 70'001).has_value());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(sum[i], x[i] + y[i]);
  });
}

TEST(ElementwiseTest, RefusesArgumentsOutsideTheContract) {
  float x = 1;
  auto stream = cpu_stream(1);
  EXPECT_FALSE(add(*stream, &x, &x, -1).has_value());
  EXPECT_FALSE(add(*stream, &x, nullptr, 1).has_value());
  EXPECT_FALSE(gated_silu(*stream, &x, &x, -1, &x).has_value());
  EXPECT_FALSE(gated_silu(*stream, nullptr, &x, 1, &x).has_value());
  EXPECT_TRUE(add(*stream, nullptr, nullptr, 0).has_value());
  EXPECT_FALSE(gated_gelu_tanh(*stream, &x, nullptr, 1, &x).has_value());
  EXPECT_FALSE(soft_cap(*stream, &x, 1, 0).has_value());
  EXPECT_FALSE(soft_cap(*stream, nullptr, 1, 1).has_value());
}

}  // namespace
}  // namespace suture
