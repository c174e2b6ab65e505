#include "kernels/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/test_kv.h"
#include "kernels/test_targets.h"

namespace suture {
namespace {

TEST(RmsNormTest, MatchesFormula) {
  for_each_target([] {
    std::mt19937 random(1);
    for (size_t width : {1, 7, 48, 576, 1537}) {
      const int64_t n_rows = 5;
      const auto x = random_values(random, n_rows * static_cast<int64_t>(width));
      const auto weight = random_values(random, static_cast<int64_t>(width));
      std::vector<float> out(x.size());
      ASSERT_TRUE(rms_norm(*cpu_stream(2), x.data(), weight.data(), n_rows,
                           static_cast<int64_t>(width), 1e-5f, out.data())
                      .has_value());
      for (size_t row = 0; row < n_rows; ++row) {
        double squares = 0;
        for (size_t i = 0; i < width; ++i) squares += std::pow(x[row * width + i], 2);
        const double root = std::sqrt(squares / static_cast<double>(width) + 1e-5f);
        for (size_t i = 0; i < width; ++i) {
          const double expected = x[row * width + i] / root * weight[i];
          ASSERT_NEAR(out[row * width + i], expected, 1e-6 * (1 + std::abs(expected)));
        }
      }
    }
  });
}

TEST(RmsNormTest, InPlaceAndInAnyCompanyTheBitsAreTheSame) {
  std::mt19937 random(2);
  constexpr int64_t kRows = 100, kWidth = 576;
  const auto x = random_values(random, kRows * kWidth), weight = random_values(random, kWidth);
  std::vector<float> out(x.size()), in_place = x, single(kWidth);
  auto stream = cpu_stream(3);
  ASSERT_TRUE(
      rms_norm(*stream, x.data(), weight.data(), kRows, kWidth, 1e-6f, out.data()).has_value());
  ASSERT_TRUE(
      rms_norm(*stream, in_place.data(), weight.data(), kRows, kWidth, 1e-6f, in_place.data())
          .has_value());
  EXPECT_EQ(out, in_place);
  const float* last = x.data() + (kRows - 1) * kWidth;
  ASSERT_TRUE(rms_norm(*stream, last, weight.data(), 1, kWidth, 1e-6f, single.data()).has_value());
  EXPECT_TRUE(std::equal(single.begin(), single.end(), out.end() - kWidth));
}

TEST(RmsNormTest, RefusesArgumentsOutsideTheContract) {
  float x = 1;
  auto stream = cpu_stream(1);
  EXPECT_FALSE(rms_norm(*stream, &x, &x, 1, 0, 0, &x).has_value());
  EXPECT_FALSE(rms_norm(*stream, &x, &x, -1, 1, 0, &x).has_value());
  EXPECT_FALSE(rms_norm(*stream, &x, &x, 1, 1, std::nanf(""), &x).has_value());
  EXPECT_FALSE(rms_norm(*stream, &x, nullptr, 1, 1, 0, &x).has_value());
}

}  // namespace
}  // namespace suture
