#include "fusion/compatibility.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "models/test_vocabulary.h"

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
  config.hidden_size = 4;
  return config;
}

std::unique_ptr<Tokenizer> tokenizer_of(const std::vector<std::string>& merges) {
  return Tokenizer::create(make_byte_vocabulary(merges)).value();
}

class CompatibilityTest : public testing::Test {
 protected:
  std::vector<CompatibilityRow> check(const ModelConfig& slave,
                                      const CompatibilityRules& rules = {},
                                      const Tokenizer* slave_tokenizer = nullptr) const {
    return check_compatibility({master_, *tokenizer_},
                               {slave, slave_tokenizer == nullptr ? *tokenizer_ : *slave_tokenizer},
                               rules);
  }
  static CompatibilityRow row_of(const std::vector<CompatibilityRow>& rows,
                                 const std::string& condition) {
    for (const CompatibilityRow& row : rows)
      if (row.condition == condition) return row;
    ADD_FAILURE() << "no row " << condition;
    return {};
  }

  const ModelConfig master_ = small_config();
  const std::unique_ptr<Tokenizer> tokenizer_ = tokenizer_of({"a b"});
};

TEST_F(CompatibilityTest, SameModelFitsInEveryCondition) {
  const auto rows = check(small_config());
  for (const CompatibilityRow& row : rows) {
    EXPECT_EQ(row.verdict, Verdict::kOk) << row.condition;
    EXPECT_EQ(row.master_value, row.slave_value);
    EXPECT_EQ(row.remedy, "");
  }
  for (const char* condition :
       {"vocabulary", "layers", "kv heads", "head dimension", "rope theta", "rope scaling",
        "rope pairing", "max positions", "window", "kv type", "norms"})
    row_of(rows, condition);
  EXPECT_TRUE(require_compatible(rows, "m", "s"));
}

TEST_F(CompatibilityTest, WidthAndHeadsOfTheSlaveAreItsOwnAffair) {
  ModelConfig slave = small_config();
  slave.hidden_size = 896;
  slave.ffn_size = 4864;
  slave.n_heads = 14;
  slave.max_positions = 99;
  const auto rows = check(slave);
  EXPECT_TRUE(require_compatible(rows, "m", "s"));
  EXPECT_EQ(row_of(rows, "norms").slave_value, "28 layers of 896");
}

TEST_F(CompatibilityTest, EachDifferenceHasItsVerdictAndBothValues) {
  struct Case {
    const char* condition;
    std::function<void(ModelConfig&)> change;
    const char* master_value;
    const char* slave_value;
    Verdict verdict;
  };
  const Case cases[] = {
      {"layers", [](ModelConfig& c) { c.n_layers = 24; }, "28", "24", Verdict::kRefused},
      {"kv heads", [](ModelConfig& c) { c.n_kv_heads = 4; }, "2", "4", Verdict::kRefused},
      {"head dimension", [](ModelConfig& c) { c.head_dim = 64; }, "128", "64", Verdict::kRefused},
      {"rope theta", [](ModelConfig& c) { c.ropes[0].theta = 10000; }, "1000000", "10000",
       Verdict::kConverted},
      {"rope scaling",
       [](ModelConfig& c) {
         c.ropes[0].scaling = RopeScaling::kYarn;
         c.ropes[0].factor = 4;
       },
       "none", "yarn, factor 4", Verdict::kConverted},
      {"rope pairing", [](ModelConfig& c) { c.rope_pairing = RopePairing::kNeighbours; }, "halves",
       "neighbours", Verdict::kConverted},
      {"kv type", [](ModelConfig& c) { c.kv_dtype = DType::kF32; }, "f16", "f32",
       Verdict::kConverted},
  };
  for (const Case& test : cases) {
    ModelConfig slave = small_config();
    test.change(slave);
    int differing = 0;
    for (const auto& row : check(slave)) {
      if (row.verdict == Verdict::kOk) continue;
      ++differing;
      EXPECT_EQ(row.verdict, test.verdict) << row.condition;
      EXPECT_EQ(row.condition, test.condition);
      EXPECT_EQ(row.master_value, test.master_value);
      EXPECT_EQ(row.slave_value, test.slave_value);
      EXPECT_NE(row.remedy, "");
    }
    EXPECT_EQ(differing, 1) << test.condition;
  }
}

TEST_F(CompatibilityTest, LayerMapsBridgeDepths) {
  ModelConfig slave = small_config();
  slave.n_layers = 14;
  const auto row =
      row_of(check(slave, {.layer_map = parse_layer_map("stride:2").value()}), "layers");
  EXPECT_EQ(row.verdict, Verdict::kConverted);
  EXPECT_NE(row.remedy.find("14 of the master's 28"), std::string::npos) << row.remedy;
  slave.n_layers = 13;
  const auto refused =
      row_of(check(slave, {.layer_map = parse_layer_map("stride:2").value()}), "layers");
  EXPECT_EQ(refused.verdict, Verdict::kRefused);
  EXPECT_NE(refused.remedy.find("layer 26 takes layer 13"), std::string::npos) << refused.remedy;
}

TEST_F(CompatibilityTest, VocabulariesShowTheirFirstDifferences) {
  const auto other = tokenizer_of({"c d"});
  const auto aligned = row_of(check(small_config(), {}, other.get()), "vocabulary");
  EXPECT_EQ(aligned.verdict, Verdict::kConverted);
  EXPECT_NE(aligned.master_value, aligned.slave_value);
  EXPECT_NE(aligned.remedy.find("aligned by bytes"), std::string::npos);
  EXPECT_NE(aligned.remedy.find("token 256 is \"ab\" and \"cd\""), std::string::npos)
      << aligned.remedy;
  const auto prefix = row_of(
      check(small_config(), {.position = SlavePosition::kPrefix}, other.get()), "vocabulary");
  EXPECT_EQ(prefix.verdict, Verdict::kConverted);
  EXPECT_NE(prefix.remedy.find("tokens of its own"), std::string::npos);
}

TEST_F(CompatibilityTest, NormsAreComparedAtTheSameDepthAndMayBeTheMasters) {
  NormWeights master, slave;
  master.layers = {{{1, 1, 1, 1}, {1, 1, 1, 1}}, {{3, 3, 3, 3}, {1, 1, 1, 1}}};
  slave.layers = {master.layers[0], {{2, 2, 2.5f, 2}, {1, 1, 1, 1}}, master.layers[1]};
  master.output = slave.output = {1, 1, 1, 1};
  ModelConfig two = small_config(), three = small_config();
  two.n_layers = 2;
  three.n_layers = 3;
  const auto norms = [&](bool master_norms) {
    return row_of(check_compatibility({two, *tokenizer_, &master}, {three, *tokenizer_, &slave},
                                      {.master_norms = master_norms}),
                  "norms");
  };
  EXPECT_EQ(norms(false).verdict, Verdict::kOk);
  EXPECT_EQ(norms(false).slave_value, "3 layers of 4, differ by 0.5 (layer 1, attention)");
  EXPECT_EQ(norms(true).verdict, Verdict::kConverted);
  EXPECT_EQ(norms(true).slave_value, "3 layers of 4, differ by 0");
  ModelConfig wide = small_config();
  wide.hidden_size = 8;
  const auto refused = row_of(check(wide, {.master_norms = true}), "norms");
  EXPECT_EQ(refused.verdict, Verdict::kRefused);
  EXPECT_NE(refused.remedy.find("same hidden size"), std::string::npos);
}

TEST_F(CompatibilityTest, OneErrorListsEveryRefusedCondition) {
  ModelConfig slave = small_config();
  slave.n_layers = 24;
  slave.head_dim = 64;
  const Status status = require_compatible(check(slave), "reader", "coder");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kIncompatible);
  EXPECT_EQ(status.error().where, "master \"reader\", slave \"coder\"");
  EXPECT_EQ(status.error().what,
            "the models differ (master and slave): layers 28 and 24; head dimension 128 and 64");
  EXPECT_NE(status.error().remedy.find("nearest"), std::string::npos);
  EXPECT_NE(status.error().remedy.find("one base model"), std::string::npos);
}

TEST_F(CompatibilityTest, ConvertedRowsAreNoReasonToRefuse) {
  const CompatibilityRow row{"rope theta", "1000000", "10000", Verdict::kConverted, "none needed"};
  EXPECT_TRUE(require_compatible(std::vector{row}, "m", "s"));
  EXPECT_EQ(verdict_name(row.verdict), "converted");
}

TEST_F(CompatibilityTest, RowsInPlaceOfTheMastersAreOfTheSameModel) {
  EXPECT_TRUE(require_compatible(check_identity("abc", "abc"), "m", "s"));
  const auto other = require_compatible(check_identity("abc", "abd"), "m", "s");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().what.find("model abc and abd"), std::string::npos);
  EXPECT_NE(other.error().remedy.find("suture fit"), std::string::npos);
}

TEST_F(CompatibilityTest, AProjectorMakesUpForEveryShape) {
  ModelConfig slave = small_config();
  slave.n_layers = 24;
  slave.n_kv_heads = 4;
  slave.head_dim = 64;
  const auto tokenizer = tokenizer_of({"c d"});
  const auto rows = list_projected({master_, *tokenizer_}, {slave, *tokenizer});
  EXPECT_TRUE(require_compatible(rows, "m", "s"));
  for (const char* condition : {"vocabulary", "layers", "kv heads", "head dimension"})
    EXPECT_EQ(row_of(rows, condition).verdict, Verdict::kConverted) << condition;
  EXPECT_EQ(row_of(rows, "rope theta").verdict, Verdict::kOk);
}

}  // namespace
}  // namespace suture
