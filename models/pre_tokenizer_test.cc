#include "models/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace suture {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view scheme, std::string_view text) {
  const auto pre_tokenizer = PreTokenizer::create(scheme);
  EXPECT_TRUE(pre_tokenizer) << pre_tokenizer.error().message();
  const auto views = pre_tokenizer->split(text);
  return {views.begin(), views.end()};
}

// Expected words follow from the published patterns by hand.
TEST(PreTokenizerTest, SmolSplitsDigitsSinglyAndLikeGpt2) {
  EXPECT_EQ(split("smollm", "I'll pay 12 dollars."),
            (Words{"I", "'ll", " pay", " ", "1", "2", " dollars", "."}));
  EXPECT_EQ(split("smollm", "a  b\n\nc"), (Words{"a", " ", " b", "\n", "\n", "c"}));
  EXPECT_EQ(split("smollm", "IT'S !!!"), (Words{"IT", "'", "S", " !!!"}));
}

TEST(PreTokenizerTest, QwenKeepsLineEndsTogetherAndASymbolBeforeALetter) {
  EXPECT_EQ(split("qwen2", "IT'S (so) 12!\r\n x"),
            (Words{"IT", "'S", " (", "so", ")", " ", "1", "2", "!\r\n", " x"}));
  EXPECT_EQ(split("qwen2", "a \n \n  b"), (Words{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(split("qwen2", "end   "), (Words{"end", "   "}));
  EXPECT_EQ(split("qwen2", "$x"), (Words{"$x"}));
}

TEST(PreTokenizerTest, LlamaKeepsThreeDigitsTogether) {
  EXPECT_EQ(split("llama-bpe", "In 12345, IT'S"),
            (Words{"In", " ", "123", "45", ",", " IT", "'S"}));
  EXPECT_EQ(split("gpt-2", "In 12345"), (Words{"In", " 12345"}));
}

TEST(PreTokenizerTest, LettersNumbersAndSpacesAreUnicodes) {
  // U+4E2D U+6587 letters, U+0663 an Arabic digit, U+3000 a space, U+180E not one.
  EXPECT_EQ(split("qwen2", "\u4E2D\u6587\u0663\u3000\u3000a"),
            (Words{"\u4E2D\u6587", "\u0663", "\u3000", "\u3000a"}));
  EXPECT_EQ(split("smollm", "a\u180E!"), (Words{"a", "\u180E!"}));
}

TEST(PreTokenizerTest, InvalidBytesCountAsSymbols) {
  EXPECT_EQ(split("smollm", "a\xFF\xC0 \xE4\xB8 b"), (Words{"a", "\xFF\xC0", " \xE4\xB8", " b"}));
  EXPECT_EQ(split("qwen2", "\xF0\x9F"), (Words{"\xF0\x9F"}));
}

TEST(PreTokenizerTest, WordsOfAnyBytesAreTheText) {
  std::mt19937 random(1);
  constexpr std::string_view kAlphabet = "ab '\r\n\t19\xE4\xB8\xAD\xC2\xA0\xFF!<";
  for (std::string_view scheme : {"gpt-2", "smollm", "qwen2", "llama-bpe"}) {
    const auto pre_tokenizer = PreTokenizer::create(scheme);
    for (int round = 0; round < 2000; ++round) {
      std::string text(random() % 24, ' ');
      for (char& byte : text) byte = kAlphabet[random() % kAlphabet.size()];
      std::string joined;
      for (std::string_view word : pre_tokenizer->split(text)) {
        EXPECT_FALSE(word.empty());
        joined += word;
      }
      ASSERT_EQ(joined, text);
    }
  }
}

TEST(PreTokenizerTest, StableEndIsWhereMoreTextCouldStillChangeAWord) {
  const auto stable_end = [](std::string_view scheme, std::string_view text) {
    return PreTokenizer::create(scheme)->stable_end(text);
  };
  for (std::string_view scheme : {"smollm", "qwen2"}) {
    EXPECT_EQ(stable_end(scheme, ""), 0u);
    EXPECT_EQ(stable_end(scheme, "One two"), 3u) << scheme;
    EXPECT_EQ(stable_end(scheme, "One two "), 7u) << scheme;
    EXPECT_EQ(stable_end(scheme, "One   two"), 5u) << scheme;
    EXPECT_EQ(stable_end(scheme, "In 12"), 5u) << scheme;
    EXPECT_EQ(stable_end(scheme, "a\t\t!"), 2u) << scheme;
    EXPECT_EQ(stable_end(scheme, "don'"), 3u) << scheme;
    EXPECT_EQ(stable_end(scheme, "a!\xE4\xB8"), 1u) << scheme;
  }
}

TEST(PreTokenizerTest, WordsBeforeTheStableEndStayWhateverFollows) {
  std::mt19937 random(2);
  constexpr std::string_view kAlphabet = "ab 's\r\n\t19\xE4\xB8\xAD\xC2\xA0\xFF!<";
  const auto random_text = [&] {
    std::string text(random() % 12, ' ');
    for (char& byte : text) byte = kAlphabet[random() % kAlphabet.size()];
    return text;
  };
  for (std::string_view scheme : {"gpt-2", "smollm", "qwen2", "llama-bpe"}) {
    const auto pre_tokenizer = PreTokenizer::create(scheme);
    for (int round = 0; round < 5000; ++round) {
      const std::string text = random_text();
      const std::string longer = text + random_text();
      const size_t end = pre_tokenizer->stable_end(text);
      ASSERT_LE(end, pre_tokenizer->stable_end(longer)) << text << "|" << longer;
      const auto words = pre_tokenizer->split(std::string_view(text).substr(0, end));
      const auto all = pre_tokenizer->split(longer);
      ASSERT_LE(words.size(), all.size());
      ASSERT_TRUE(std::equal(words.begin(), words.end(), all.begin())) << text << "|" << longer;
    }
  }
}

// A pattern that gave up at its limit would leave one word here.
TEST(PreTokenizerTest, LongRunsStayWithinTheMatchLimit) {
  constexpr size_t kRun = 1 << 20;
  const std::string spaces(kRun, ' ');
  for (std::string_view scheme : {"smollm", "qwen2"}) {
    EXPECT_EQ(split(scheme, spaces + "x").size(), 2u) << scheme;
    EXPECT_EQ(split(scheme, std::string(kRun, 'a') + "!").size(), 2u) << scheme;
    EXPECT_EQ(split(scheme, std::string(kRun, '7')).size(), kRun) << scheme;
  }
  std::string lines;
  for (size_t i = 0; i < kRun; ++i) lines += " \n";
  EXPECT_EQ(split("qwen2", lines + "x").size(), 2u);
}

TEST(PreTokenizerTest, UnknownNameIsRefusedWithTheKnownOnes) {
  const auto unknown = PreTokenizer::create("gpt-7");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(unknown.error().what.find("gpt-7"), std::string::npos);
  EXPECT_NE(unknown.error().remedy.find("qwen2"), std::string::npos);
}

}  // namespace
}  // namespace suture
