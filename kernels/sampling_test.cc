#include "kernels/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/test_kv.h"

namespace suture {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(TopKTest, MatchesAStableSort) {
  std::mt19937 random(1);
  auto logits = random_values(random, 5000);  // 256 different values: many are equal
  logits[17] = kInfinity;
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return value(a) > value(b); });
  for (size_t k : {1, 2, 40, 5000}) {
    std::vector<int32_t> ids(k);
    std::vector<float> values(k);
    ASSERT_TRUE(top_k(*cpu_stream(1), logits.data(), 5000, static_cast<int64_t>(k), ids.data(),
                      values.data())
                    .has_value());
    for (size_t i = 0; i < k; ++i) {
      ASSERT_EQ(ids[i], order[i]);
      ASSERT_EQ(values[i], value(order[i]));
    }
  }
}

TEST(TopKTest, NanCountsAsMinusInfinity) {
  const std::vector<float> logits = {std::nanf(""), -kInfinity, -5, std::nanf("")};
  std::vector<int32_t> ids(4);
  std::vector<float> values(4);
  ASSERT_TRUE(top_k(*cpu_stream(1), logits.data(), 4, 4, ids.data(), values.data()).has_value());
  EXPECT_EQ(ids, (std::vector<int32_t>{2, 0, 1, 3}));
  EXPECT_EQ(values, (std::vector<float>{-5, -kInfinity, -kInfinity, -kInfinity}));
}

TEST(TopKTest, NanAmongManyIsPassedOver) {
  std::vector<float> logits(1000, std::nanf(""));
  logits[700] = -3;
  logits[900] = -2;
  std::vector<int32_t> ids(3);
  std::vector<float> values(3);
  ASSERT_TRUE(top_k(*cpu_stream(1), logits.data(), 1000, 3, ids.data(), values.data()).has_value());
  EXPECT_EQ(ids, (std::vector<int32_t>{900, 700, 0}));
  EXPECT_EQ(values, (std::vector<float>{-2, -3, -kInfinity}));
}

TEST(TopKTest, RefusesMoreThanThereAre) {
  const float logit = 1;
  int32_t id = 0;
  float value = 0;
  auto stream = cpu_stream(1);
  EXPECT_FALSE(top_k(*stream, &logit, 1, 2, &id, &value).has_value());
  EXPECT_FALSE(top_k(*stream, &logit, 1, -1, &id, &value).has_value());
  EXPECT_FALSE(top_k(*stream, nullptr, 1, 1, &id, &value).has_value());
}

TEST(PenalizeTest, LogitsOfTheTokensAreDividedOrMultipliedOthersStay) {
  const std::vector<float> logits = {2, -2, 0, 3, -1, kInfinity};
  const std::vector<int32_t> ids = {0, 1, 2, 5, 77, -1};
  std::vector<float> out(6);
  ASSERT_TRUE(penalize(*cpu_stream(1), logits.data(), 6, ids.data(), 6, 2, out.data()));
  EXPECT_EQ(out, (std::vector<float>{1, -4, 0, 3, -1, kInfinity}));
  // In place, and in favour of what was said.
  ASSERT_TRUE(penalize(*cpu_stream(1), out.data(), 6, ids.data(), 2, 0.5f, out.data()));
  EXPECT_EQ(out, (std::vector<float>{2, -2, 0, 3, -1, kInfinity}));
}

TEST(PenalizeTest, RefusesWhatHasNoMeaning) {
  float logit = 1;
  const int32_t id = 0;
  auto stream = cpu_stream(1);
  EXPECT_TRUE(penalize(*stream, &logit, 1, nullptr, 0, 2, &logit).has_value());
  EXPECT_FALSE(penalize(*stream, &logit, 1, nullptr, 1, 2, &logit).has_value());
  EXPECT_FALSE(penalize(*stream, &logit, 1, &id, 1, 0, &logit).has_value());
  EXPECT_FALSE(penalize(*stream, &logit, 1, &id, 2, 2, &logit).has_value());
}

float log_sum_exp_of(const std::vector<float>& logits, int threads) {
  float out = 0;
  EXPECT_TRUE(
      log_sum_exp(*cpu_stream(threads), logits.data(), std::ssize(logits), &out).has_value());
  return out;
}

TEST(LogSumExpTest, MatchesFormulaWithAnyNumberOfThreads) {
  std::mt19937 random(2);
  auto logits = random_values(random, 50'001);
  long double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<long double>(x));
  const float expected = static_cast<float>(std::log(sum));
  for (int threads : {1, 2, 5}) EXPECT_FLOAT_EQ(log_sum_exp_of(logits, threads), expected);
  EXPECT_EQ(log_sum_exp_of(logits, 1), log_sum_exp_of(logits, 3));
  for (float& x : logits) x += 10'000;  // exp() of these is beyond every type
  EXPECT_FLOAT_EQ(log_sum_exp_of(logits, 2), expected + 10'000);
}

TEST(LogSumExpTest, InfinitiesAndNan) {
  EXPECT_EQ(log_sum_exp_of({-kInfinity, 2, -kInfinity}, 1), 2);
  EXPECT_EQ(log_sum_exp_of({-kInfinity, -kInfinity}, 1), -kInfinity);
  EXPECT_TRUE(std::isnan(log_sum_exp_of({1, std::nanf(""), 2}, 1)));
  float out = 0;
  EXPECT_FALSE(log_sum_exp(*cpu_stream(1), &out, 0, &out).has_value());
}

}  // namespace
}  // namespace suture
