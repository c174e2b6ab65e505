#include "actors/attention_shares.h"

#include <gtest/gtest.h>

#include <limits>

namespace suture {
namespace {

// One keyword, two layers; shares of the first topic, then of the keyword.
AttentionShares shares_of(int64_t tokens, std::vector<std::string> readers,
                          const std::vector<double>& values) {
  AttentionShares shares{
      .tokens = tokens, .readers = std::move(readers), .keywords = {"word"}, .n_layers = 2};
  shares.bits.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    shares.bits[i] = std::bit_cast<uint32_t>(static_cast<float>(values[i]));
  return shares;
}

TEST(AttentionSharesTest, MeansAreOverTheTokensOfBoth) {
  AttentionShares sum;
  ASSERT_TRUE(add(sum, shares_of(1, {"m", "a"}, {0.5, 0.5, 0.25, 0.75, 0, 0.5, 0, 0.25})));
  ASSERT_TRUE(add(sum, AttentionShares()));
  ASSERT_TRUE(add(sum, shares_of(3, {"m", "a"}, {0.5, 0.5, 1, 0, 0.5, 0, 0, 0})));
  ASSERT_TRUE(check(sum));
  EXPECT_EQ(sum.tokens, 4);
  EXPECT_FLOAT_EQ(sum.share(0, 0, 0), 0.5);
  EXPECT_FLOAT_EQ(sum.share(0, 1, 0), 0.8125);
  EXPECT_FLOAT_EQ(sum.share(0, 1, 1), 0.1875);
  EXPECT_FLOAT_EQ(sum.share(1, 0, 0), 0.375);
  EXPECT_FLOAT_EQ(sum.share(1, 0, 1), 0.125);
  EXPECT_FLOAT_EQ(sum.share(1, 1, 1), 0.0625);
  EXPECT_FLOAT_EQ(sum.mean(0, 1), (0.5 + 0.1875) / 2);
}

TEST(AttentionSharesTest, SharesWithoutAPlaceAreRefused) {
  const AttentionShares whole = shares_of(2, {"m"}, {1, 1, 0, 0});
  EXPECT_TRUE(check(whole));
  EXPECT_TRUE(check(AttentionShares()));
  AttentionShares damaged = whole;
  damaged.bits.pop_back();
  EXPECT_FALSE(check(damaged));
  damaged = whole;
  damaged.n_layers = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(check(damaged));
  damaged = whole;
  damaged.tokens = -1;
  EXPECT_FALSE(check(damaged));
  damaged = whole;
  damaged.readers.clear();
  damaged.bits.clear();
  EXPECT_FALSE(check(damaged));
}

TEST(AttentionSharesTest, SharesOfOthersAreNotAddedUp) {
  const AttentionShares whole = shares_of(2, {"m"}, {1, 1, 0, 0});
  AttentionShares sum = whole;
  AttentionShares other = whole;
  other.keywords = {"another"};
  EXPECT_FALSE(add(sum, other));
  other = whole;
  other.readers = {"n"};
  EXPECT_FALSE(add(sum, other));
  other = whole;
  other.n_layers = 1;
  other.bits.resize(2);
  EXPECT_FALSE(add(sum, other));
  EXPECT_EQ(sum, whole);
}

}  // namespace
}  // namespace suture
