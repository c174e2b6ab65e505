#include "fusion/compatibility.h"

#include <gtest/gtest.h>

#include <functional>

namespace suture {
namespace {

using Verdict = CompatibilityRow::Verdict;

ModelConfig small_config() {
  ModelConfig config;
  config.n_layers = 28;
  config.n_heads = 12;
  config.n_kv_heads = 2;
  config.head_dim = 128;
  config.ropes = {{.theta = 1e6f}};
  return config;
}

TEST(CompatibilityTest, SameModelFitsInEveryCondition) {
  const auto rows = check_compatibility(small_config(), "ab", small_config(), "ab");
  EXPECT_EQ(rows.size(), 7u);
  for (const CompatibilityRow& row : rows) {
    EXPECT_EQ(row.verdict, Verdict::kOk) << row.condition;
    EXPECT_EQ(row.master_value, row.slave_value);
    EXPECT_EQ(row.remedy, "");
  }
  EXPECT_TRUE(require_compatible(rows, "m", "s"));
}

TEST(CompatibilityTest, WidthAndHeadsOfTheSlaveAreItsOwnAffair) {
  ModelConfig slave = small_config();
  slave.hidden_size = 896;
  slave.ffn_size = 4864;
  slave.n_heads = 14;
  slave.max_positions = 99;
  const auto rows = check_compatibility(small_config(), "ab", slave, "ab");
  EXPECT_TRUE(require_compatible(rows, "m", "s"));
}

TEST(CompatibilityTest, EachDifferenceIsRefusedAloneWithBothValues) {
  struct Case {
    const char* condition;
    std::function<void(ModelConfig&)> change;
    const char* master_value;
    const char* slave_value;
  };
  const Case cases[] = {
      {"layers", [](ModelConfig& c) { c.n_layers = 24; }, "28", "24"},
      {"kv heads", [](ModelConfig& c) { c.n_kv_heads = 4; }, "2", "4"},
      {"head dimension", [](ModelConfig& c) { c.head_dim = 64; }, "128", "64"},
      {"rope theta", [](ModelConfig& c) { c.ropes[0].theta = 10000; }, "1000000", "10000"},
      {"rope pairing", [](ModelConfig& c) { c.rope_pairing = RopePairing::kNeighbours; }, "halves",
       "neighbours"},
      {"kv type", [](ModelConfig& c) { c.kv_dtype = DType::kF32; }, "f16", "f32"},
  };
  for (const Case& test : cases) {
    ModelConfig slave = small_config();
    test.change(slave);
    int refused = 0;
    for (const auto& row : check_compatibility(small_config(), "ab", slave, "ab")) {
      if (row.verdict == Verdict::kOk) continue;
      ++refused;
      EXPECT_EQ(row.verdict, Verdict::kRefused);
      EXPECT_EQ(row.condition, test.condition);
      EXPECT_EQ(row.master_value, test.master_value);
      EXPECT_EQ(row.slave_value, test.slave_value);
      EXPECT_NE(row.remedy, "");
    }
    EXPECT_EQ(refused, 1) << test.condition;
  }
}

TEST(CompatibilityTest, OneErrorListsEveryRefusedCondition) {
  ModelConfig slave = small_config();
  slave.n_layers = 24;
  slave.head_dim = 64;
  const auto rows = check_compatibility(small_config(), "ab12", slave, "cd34");
  const Status status = require_compatible(rows, "reader", "coder");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIncompatible);
  EXPECT_EQ(status.error().where, "master \"reader\", slave \"coder\"");
  EXPECT_EQ(status.error().what,
            "the models differ (master and slave): vocabulary ab12 and cd34; layers 28 and 24; "
            "head dimension 128 and 64");
  EXPECT_NE(status.error().remedy.find("tokenizers"), std::string::npos);
  EXPECT_NE(status.error().remedy.find("identity"), std::string::npos);
}

TEST(CompatibilityTest, ConvertedRowsAreNoReasonToRefuse) {
  const CompatibilityRow row{"rope theta", "1000000", "10000", Verdict::kConverted, "none needed"};
  EXPECT_TRUE(require_compatible(std::vector{row}, "m", "s"));
  EXPECT_EQ(verdict_name(row.verdict), "converted");
}

}  // namespace
}  // namespace suture
