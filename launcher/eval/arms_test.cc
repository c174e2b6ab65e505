#include "launcher/eval/arms.h"

#include <gtest/gtest.h>

#include "launcher/eval/test_eval.h"

namespace suture::eval_test {
namespace {

const std::vector<ArmKind> kAll = parse_arms({"all"}).value();

std::vector<std::string> names(const std::vector<Arm>& arms, const LaunchSpec& topology) {
  std::vector<std::string> names;
  for (const Arm& arm : arms) names.push_back(arm_name(arm, topology));
  return names;
}

using Names = std::vector<std::string>;

TEST(ArmsTest, NamesAreReadAndUnknownOnesRefused) {
  EXPECT_EQ(kAll.size(), 6u);
  EXPECT_EQ(parse_arms({"shuffled", "alone"}).value(),
            (std::vector<ArmKind>{ArmKind::kMasterAlone, ArmKind::kShuffled}));
  const auto wrong = parse_arms({"alone", "stiched"});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().what.find("stiched"), std::string::npos);
  for (const ArmKind kind : kAll)
    EXPECT_EQ(parse_arms({std::string(arm_kind_name(kind))}).value(), std::vector<ArmKind>{kind});
}

TEST(ArmsTest, OfPrefixSlavesWithASweep) {
  const LaunchSpec spec = topology({prefix("a"), prefix("b"), prefix("c", "big")});
  EXPECT_EQ(
      names(arms_of(spec, kAll, {-2, 0.5}), spec),
      (Names{"master alone", "master that read everything", "a alone", "text hand-off",
             "stitched, gain -2", "stitched, gain 0.5", "stitched, another item's message, gain -2",
             "stitched, another item's message, gain 0.5"}));
}

// What the slave reads the master reads as well.
TEST(ArmsTest, OfAnAlignedSlaveAndOfAMasterAlone) {
  const LaunchSpec spec = topology({aligned("a")});
  EXPECT_EQ(names(arms_of(spec, kAll, {}), spec),
            (Names{"master alone", "a alone", "text hand-off", "stitched",
                   "stitched, another item's message"}));
  const LaunchSpec single = topology({});
  EXPECT_EQ(names(arms_of(single, kAll, {}), single), Names{"master alone"});
}

TEST(ArmsTest, LaunchesFollowFromTheTopology) {
  LaunchSpec spec = topology({prefix("a"), aligned("b")});
  spec.models[1].documents = {"report.txt"};
  spec.models[2].fusion.layer_gain = {1, 2};
  spec.max_seq_len = 777;

  const LaunchSpec stitched = arm_spec(spec, {.kind = ArmKind::kStitched, .gain = -1.5});
  ASSERT_EQ(stitched.models.size(), 3u);
  EXPECT_TRUE(stitched.models[1].documents.empty());
  EXPECT_TRUE(stitched.models[1].documents_per_request);
  EXPECT_EQ(stitched.models[2].fusion.gain, -1.5);
  EXPECT_TRUE(stitched.models[2].fusion.layer_gain.empty());
  EXPECT_FALSE(stitched.models[2].documents_per_request);

  const LaunchSpec own_gain = arm_spec(spec, {.kind = ArmKind::kShuffled});
  EXPECT_EQ(own_gain.models[2].fusion.layer_gain, spec.models[2].fusion.layer_gain);

  const LaunchSpec alone = arm_spec(spec, {.kind = ArmKind::kHandOff});
  ASSERT_EQ(alone.models.size(), 1u);
  EXPECT_EQ(alone.models[0].name, "m");
  EXPECT_EQ(alone.max_seq_len, 777);

  const LaunchSpec slave = arm_spec(spec, {.kind = ArmKind::kSlaveAlone, .slave = 1});
  ASSERT_EQ(slave.models.size(), 1u);
  EXPECT_EQ(slave.models[0].name, "a");
  EXPECT_EQ(slave.models[0].role, Role::kMaster);
  EXPECT_TRUE(slave.models[0].documents.empty());
  EXPECT_EQ(slave.models[0].system, "Be brief.");
}

}  // namespace
}  // namespace suture::eval_test
