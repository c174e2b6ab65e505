#include "fusion/rope_map.h"

#include <gtest/gtest.h>

#include <cmath>

namespace suture {
namespace {

// Two layers with a rope each, the second of the dynamic kind from 8 positions on.
ModelConfig config() {
  ModelConfig model;
  model.n_layers = 2;
  model.head_dim = 4;
  model.ropes = {
      {.theta = 100},
      {.scaling = RopeScaling::kDynamic, .theta = 100, .factor = 2, .original_positions = 8}};
  model.layer_rules = {{.rope = 0}, {.rope = 1}};
  return model;
}

StreamInfo stream_of(const ModelConfig& model) {
  StreamInfo info;
  info.shape.n_layers = model.n_layers;
  info.shape.head_dim = model.head_dim;
  info.rope_pairing = model.rope_pairing;
  info.ropes = model.ropes;
  for (const LayerRule& rule : model.layer_rules) info.layer_ropes.push_back(rule.rope);
  return info;
}

TEST(RopeMapTest, RowsTurnByTheRuleOfTheirLayerAndTheirEpoch) {
  Rotations own(config());
  EXPECT_FLOAT_EQ(own.at(0, 0).frequencies[1], 0.1f);
  EXPECT_FLOAT_EQ(own.at(0, 16).frequencies[1], 0.1f);
  EXPECT_FLOAT_EQ(own.at(1, 0).frequencies[1], 0.1f);
  // Dynamic NTK: theta * (factor * L / limit - (factor - 1))^(d / (d - 2)) = 100 * 3^2.
  EXPECT_FLOAT_EQ(own.at(1, 16).frequencies[1], 1 / std::sqrt(900.0f));
  Rotations other(stream_of(config()));
  EXPECT_FLOAT_EQ(other.at(1, 16).frequencies[1], 1 / std::sqrt(900.0f));
}

TEST(RopeMapTest, OneTableForOneEpoch) {
  Rotations own(config());
  const Rotation first = own.at(1, 16);
  EXPECT_NE(own.at(1, 17), first);
  EXPECT_EQ(own.at(1, 16), first);
}

TEST(RopeMapTest, AStreamWithoutRopesPerLayerHasTheFirstForAll) {
  StreamInfo info = stream_of(config());
  info.layer_ropes.clear();
  Rotations other(info);
  EXPECT_EQ(other.at(1, 0), other.at(0, 0));
}

TEST(RopeMapTest, RowsLieRightWhereTheMappedLayersHaveOneRule) {
  const ModelConfig master = config();
  const StreamInfo slave = stream_of(master);
  const auto same = [&](const ModelConfig& model, const std::vector<int32_t>& map) {
    return same_rotation(model, slave, map, SlavePosition::kAligned);
  };
  EXPECT_TRUE(same(master, {0, 1}));
  EXPECT_FALSE(same(master, {1, 0}));
  EXPECT_TRUE(same(master, {0, -1}));
  ModelConfig other = master;
  other.rope_pairing = RopePairing::kNeighbours;
  EXPECT_FALSE(same(other, {0, 1}));
  other = master;
  other.ropes[0].original_positions = 4096;  // means nothing to a rule without scaling
  EXPECT_TRUE(same(other, {0, 1}));
  other.ropes[1].original_positions = 16;
  EXPECT_FALSE(same(other, {0, 1}));
}

TEST(RopeMapTest, AnotherTextHasAnotherLengthAndItsRowsOtherTables) {
  const StreamInfo slave = stream_of(config());
  const auto same = [&](const std::vector<int32_t>& map) {
    return same_rotation(config(), slave, map, SlavePosition::kPrefix);
  };
  EXPECT_FALSE(same({0, 1}));
  EXPECT_TRUE(same({0, -1}));
}

}  // namespace
}  // namespace suture
