#include "launcher/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace suture {
namespace {

constexpr std::array<std::string_view, 3> kWords = {"max_seq_len", "max_sequences", "threads"};

TEST(NearestWordTest, FindsTheFewestChangedLetters) {
  EXPECT_EQ(nearest_word("max_seq_length", kWords), "max_seq_len");
  EXPECT_EQ(nearest_word("thread", kWords), "threads");
  EXPECT_EQ(nearest_word("max_sequnces", kWords), "max_sequences");
}

TEST(NearestWordTest, TakesTheBeginningOfAWord) {
  constexpr std::array<std::string_view, 1> kModels = {"smollm2-135m-instruct"};
  EXPECT_EQ(nearest_word("smollm2", kModels), "smollm2-135m-instruct");
}

TEST(NearestWordTest, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest_word("colour", kWords), std::nullopt);
  EXPECT_EQ(nearest_word("", kWords), std::nullopt);
  EXPECT_EQ(nearest_word(std::string(1000, 'x'), kWords), std::nullopt);
}

}  // namespace
}  // namespace suture
