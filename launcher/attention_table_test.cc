#include "launcher/attention_table.h"

#include <gtest/gtest.h>

#include "launcher/attention_json.h"

namespace suture {
namespace {

// A master of two layers, its slave, and a word that only the slave has read.
AttentionShares shares() {
  AttentionShares shares{
      .tokens = 7, .readers = {"m", "log|book"}, .keywords = {"ferry"}, .n_layers = 2};
  for (const float share : {0.75f, 0.25f, 0.5f, 0.5f, 0.0f, 0.125f, 0.0f, 0.25f})
    shares.bits.push_back(std::bit_cast<uint32_t>(share));
  return shares;
}

TEST(AttentionTableTest, NamesTheShareOfEachAndItsTopLayers) {
  EXPECT_EQ(attention_table(shares()),
            "looks at             share %  most in layers\n"
            "m (own)                 62.5  0 (75.0), 1 (50.0)\n"
            "log|book                37.5  1 (50.0), 0 (25.0)\n"
            "\"ferry\" in log|book     18.8  1 (25.0), 0 (12.5)\n");
}

TEST(AttentionTableTest, MarkdownHasARowForEachLayer) {
  EXPECT_EQ(attention_markdown(shares()),
            "| layer | m (own) | log\\|book | \"ferry\" in log\\|book |\n"
            "|---|---|---|---|\n"
            "| all | 62.5 | 37.5 | 18.8 |\n"
            "| 0 | 75.0 | 25.0 | 12.5 |\n"
            "| 1 | 50.0 | 50.0 | 25.0 |\n");
}

TEST(AttentionJsonTest, ComesBackAsItWasAndIsCheckedBefore) {
  const nlohmann::json json = to_json(shares());
  EXPECT_EQ(json.at("layers")[1][0], 0.5);
  EXPECT_EQ(json.at("mean"), (std::vector<double>{0.625, 0.375}));
  EXPECT_EQ(json.at("keywords")[0].at("keyword"), "ferry");
  EXPECT_EQ(json.at("keywords")[0].at("mean"), (std::vector<double>{0, 0.1875}));
  EXPECT_EQ(attention_from_json(json), shares());
  nlohmann::json damaged = json;
  damaged["layers"][1].erase(0);
  EXPECT_ANY_THROW(attention_from_json(damaged));
  damaged = json;
  damaged["keywords"][0]["layers"].erase(1);
  EXPECT_ANY_THROW(attention_from_json(damaged));
  damaged = json;
  damaged["layers"][0][0] = "much";
  EXPECT_ANY_THROW(attention_from_json(damaged));
  damaged = json;
  damaged["tokens"] = -1;
  EXPECT_ANY_THROW(attention_from_json(damaged));
}

}  // namespace
}  // namespace suture
