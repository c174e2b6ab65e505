#include "models/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace suture {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Pearson's statistic for draws at positions 0 .. n-1 against what softmax says.
double chi_square(std::span<const double> probabilities, std::span<const int> counts) {
  const double n = std::accumulate(counts.begin(), counts.end(), 0.0);
  double statistic = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = n * probabilities[i];
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return statistic;
}

std::vector<double> softmax(std::span<const float> logits, double temperature) {
  std::vector<double> weights;
  for (float logit : logits) weights.push_back(std::exp(logit / temperature));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

TEST(SamplerTest, UniformIsInRangeAndFillsItEvenly) {
  std::vector<int> counts(16);
  for (uint64_t position = 0; position < 16000; ++position) {
    const double uniform = counter_uniform(3, position);
    ASSERT_GE(uniform, 0);
    ASSERT_LT(uniform, 1);
    ++counts[static_cast<size_t>(uniform * 16)];
  }
  // 15 degrees of freedom: 37.7 is passed by chance once in a thousand.
  EXPECT_LT(chi_square(std::vector<double>(16, 1.0 / 16), counts), 37.7);
}

TEST(SamplerTest, UniformDependsOnSeedAndPositionAlone) {
  const double first = counter_uniform(1, 100);
  counter_uniform(1, 99);
  EXPECT_EQ(counter_uniform(1, 100), first);
  EXPECT_NE(counter_uniform(2, 100), first);
  EXPECT_NE(counter_uniform(1, 101), first);
  EXPECT_NE(counter_uniform(1ull << 32, 100), counter_uniform(0, 100));
  EXPECT_NE(counter_uniform(1, 1ull << 32), counter_uniform(1, 0));
}

TEST(SamplerTest, CandidatesFollowTheirProbabilities) {
  const std::vector<float> logits = {2.0f, 1.5f, 1.0f, 0.0f, -1.0f};
  for (float temperature : {0.5f, 1.0f, 2.0f}) {
    std::vector<int> counts(logits.size());
    const SamplingOptions options{.temperature = temperature};
    for (uint64_t position = 0; position < 20000; ++position) {
      ++counts[pick_candidate(logits, options, counter_uniform(17, position))];
    }
    // 4 degrees of freedom: 18.5 is passed by chance once in a thousand.
    EXPECT_LT(chi_square(softmax(logits, temperature), counts), 18.5) << temperature;
  }
}

TEST(SamplerTest, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 1/2, 1/4, 1/8, 1/8.
  const float unit = std::log(2.0f);
  const std::vector<float> logits = {3 * unit, 2 * unit, unit, unit};
  const auto last = [&](float top_p) {
    return pick_candidate(logits, {.temperature = 1, .top_p = top_p}, std::nextafter(1.0, 0.0));
  };
  EXPECT_EQ(last(0.1f), 0u);
  EXPECT_EQ(last(0.49f), 0u);
  EXPECT_EQ(last(0.6f), 1u);
  EXPECT_EQ(last(0.8f), 2u);
  EXPECT_EQ(last(1.0f), 3u);
  // Within the set {1/2, 1/4} the first takes two thirds.
  EXPECT_EQ(pick_candidate(logits, {.temperature = 1, .top_p = 0.6f}, 0.66), 0u);
  EXPECT_EQ(pick_candidate(logits, {.temperature = 1, .top_p = 0.6f}, 0.67), 1u);
}

TEST(SamplerTest, MinPKeepsCandidatesThatAreLikelyBesideTheBest) {
  // Probabilities 1/2, 1/4, 1/8, 1/8: of the best one's 1, 1/2, 1/4, 1/4.
  const float unit = std::log(2.0f);
  const std::vector<float> logits = {3 * unit, 2 * unit, unit, unit};
  const auto last = [&](const SamplingOptions& options) {
    return pick_candidate(logits, options, std::nextafter(1.0, 0.0));
  };
  EXPECT_EQ(last({.temperature = 1, .min_p = 1.0f}), 0u);
  EXPECT_EQ(last({.temperature = 1, .min_p = 0.6f}), 0u);
  EXPECT_EQ(last({.temperature = 1, .min_p = 0.4f}), 1u);
  EXPECT_EQ(last({.temperature = 1, .min_p = 0.2f}), 3u);
  // Temperature comes first: at 2 the second has 1/sqrt(2) of the best one's probability.
  EXPECT_EQ(last({.temperature = 2, .min_p = 0.6f}), 1u);
  // Of what min_p leaves, {2/3, 1/3}, top_p takes the first alone.
  EXPECT_EQ(last({.temperature = 1, .top_p = 0.6f, .min_p = 0.4f}), 0u);
  EXPECT_EQ(pick_candidate(logits, {.temperature = 1, .min_p = 0.4f}, 0.66), 0u);
  EXPECT_EQ(pick_candidate(logits, {.temperature = 1, .min_p = 0.4f}, 0.67), 1u);
}

TEST(SamplerTest, ImpossibleCandidatesAreNeverPicked) {
  const std::vector<float> logits = {0.0f, kNan, 0.0f, -kInfinity, kNan};
  for (double uniform : {0.0, 0.25, 0.5, 0.75, std::nextafter(1.0, 0.0)}) {
    const size_t picked = pick_candidate(logits, {.temperature = 1}, uniform);
    EXPECT_TRUE(picked == 0 || picked == 2) << uniform;
  }
  EXPECT_EQ(pick_candidate(std::vector<float>{5.0f, 4.9f}, {.temperature = 1e-30f}, 0.9999), 0u);
}

TEST(SamplerTest, OptionsOutOfRangeAreRefusedByName) {
  const auto refused = [](SamplingOptions options) {
    const Status status = validate(options);
    return status ? std::string() : status.error().where;
  };
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({.temperature = 2, .top_k = 1024, .top_p = 0.01f}), "");
  for (float temperature : {-0.1f, kNan, kInfinity}) {
    EXPECT_EQ(refused({.temperature = temperature}), "temperature");
  }
  EXPECT_EQ(refused({.top_k = -1}), "top_k");
  EXPECT_EQ(refused({.top_k = 1025}), "top_k");
  for (float top_p : {0.0f, -1.0f, 1.1f, kNan}) EXPECT_EQ(refused({.top_p = top_p}), "top_p");
  for (float min_p : {-0.1f, 1.1f, kNan}) EXPECT_EQ(refused({.min_p = min_p}), "min_p");
  for (float penalty : {0.0f, -1.0f, 10.5f, kNan})
    EXPECT_EQ(refused({.repetition_penalty = penalty}), "repetition_penalty");
  for (int64_t window : {int64_t{-2}, kMaxRepetitionWindow + 1})
    EXPECT_EQ(refused({.repetition_window = window}), "repetition_window");
}

class DeviceSamplerTest : public testing::Test {
 protected:
  void SetUp() override {
    device_ = open_device("cpu", 1).value();
    stream_ = device_->make_stream().value();
  }

  Result<int32_t> sample(std::span<const float> logits, const SamplingOptions& options,
                         int64_t position, std::span<const int32_t> text = {}) {
    auto sampler = Sampler::create(*device_, static_cast<int32_t>(logits.size()));
    EXPECT_TRUE(sampler) << sampler.error().message();
    auto buffer = device_->allocate(logits.size_bytes()).value();
    EXPECT_TRUE(stream_->copy_to_device(buffer->data(), std::as_bytes(logits)));
    return (*sampler)->sample(*stream_, buffer->as<float>(), options, position, text);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(DeviceSamplerTest, GreedyTakesTheLargestAndTheLowerIdOfEquals) {
  EXPECT_EQ(sample(std::vector<float>{1, 3, 2, 3}, {}, 0).value(), 1);
  EXPECT_EQ(sample(std::vector<float>{kNan, -2, -1}, {}, 0).value(), 2);
}

TEST_F(DeviceSamplerTest, RepeatedTokensInTheWindowAreLessLikely) {
  const std::vector<float> logits = {4, 3, -1};
  const std::vector<int32_t> text = {0, 1, 1, 2, 2};
  const auto greedy = [&](float penalty, int64_t window) {
    const SamplingOptions options{.repetition_penalty = penalty, .repetition_window = window};
    return sample(logits, options, 0, text).value();
  };
  EXPECT_EQ(greedy(1, -1), 0);
  EXPECT_EQ(greedy(2, -1), 0);    // 2, 1.5, -2
  EXPECT_EQ(greedy(0.5f, 4), 1);  // 4, 6, -0.5: token 0 has left the window
  EXPECT_EQ(greedy(0.5f, 0), 0);
  EXPECT_EQ(greedy(0.5f, 1000), 0);
  const SamplingOptions twice{.repetition_penalty = 1.5f, .repetition_window = -1};
  EXPECT_EQ(sample(logits, twice, 0, std::vector<int32_t>{0, 0, 0}).value(), 1);
  // However often it was said, once: 3 / 1.5 = 2 stays above 1.9.
  EXPECT_EQ(sample(std::vector<float>{3, 1.9f}, twice, 0, std::vector<int32_t>{0, 0, 0}).value(),
            0);
}

TEST_F(DeviceSamplerTest, DrawsAreTheIdsOfTheCandidates) {
  const std::vector<float> logits = {-4, 1, 2, -4, 1.5f};  // best first: 2, 4, 1
  const std::vector<float> best_first = {2, 1.5f, 1};
  const int32_t ids[] = {2, 4, 1};
  const SamplingOptions options{.temperature = 1, .top_k = 3, .seed = 5};
  for (int64_t position = 0; position < 50; ++position) {
    const double uniform = counter_uniform(5, static_cast<uint64_t>(position));
    EXPECT_EQ(sample(logits, options, position).value(),
              ids[pick_candidate(best_first, options, uniform)]);
  }
}

TEST_F(DeviceSamplerTest, TopKOfZeroTakesAllUpToTheBound) {
  const std::vector<float> logits(3000, 1.0f);
  int32_t largest = 0;
  for (int64_t position = 0; position < 200; ++position) {
    largest = std::max(largest, sample(logits, {.temperature = 1, .top_k = 0}, position).value());
  }
  EXPECT_GT(largest, 500);
  EXPECT_LT(largest, kMaxCandidates);
}

TEST_F(DeviceSamplerTest, LogitsWithoutAFiniteBestAreAnError) {
  for (float bad : {kNan, -kInfinity, kInfinity}) {
    const auto id = sample(std::vector<float>{bad, bad}, {}, 7);
    ASSERT_FALSE(id) << bad;
    EXPECT_EQ(id.error().where, "logits");
    EXPECT_NE(id.error().what.find("position 7"), std::string::npos);
  }
}

}  // namespace
}  // namespace suture
