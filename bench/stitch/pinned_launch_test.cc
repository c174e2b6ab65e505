#include "bench/stitch/pinned_launch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/test_folder.h"
#include "launcher/topology.h"

namespace suture {
namespace {

LaunchSpec launch_of(const std::string& slave_gain) {
  PinnedLaunchSpec spec;
  spec.model = "/models/small.gguf";
  spec.slave_gain = slave_gain;
  spec.max_tokens = 2112;
  return parse_topology(topology_of(spec), "stitch.toml").value();
}

TEST(PinnedLaunchTest, AMasterAloneHasNoSlave) {
  const LaunchSpec launch = launch_of("");
  ASSERT_EQ(launch.models.size(), 1u);
  EXPECT_EQ(launch.master().path_text, "/models/small.gguf");
  EXPECT_EQ(launch.master().threads, 1);
  EXPECT_EQ(launch.max_seq_len, 2112);
}

TEST(PinnedLaunchTest, AFollowerHasTheMastersModelAndLagsByOne) {
  const LaunchSpec launch = launch_of("0");
  ASSERT_EQ(launch.models.size(), 2u);
  const ModelSpec& follower = launch.models[1];
  EXPECT_EQ(follower.role, Role::kSlave);
  EXPECT_EQ(follower.path_text, launch.master().path_text);
  EXPECT_EQ(follower.threads, 1);
  EXPECT_EQ(follower.fusion.position, SlavePosition::kAligned);
  EXPECT_EQ(follower.fusion.lag, 1);
  EXPECT_EQ(follower.fusion.gain, 0);
  EXPECT_EQ(follower.on_failure, OnFailure::kFail);
  EXPECT_EQ(launch_of("-inf").models[1].fusion.gain, -INFINITY);
}

TEST(PinnedLaunchTest, ASlaveOfAnotherModelComesWithItsProjector) {
  const TestFolder folder;
  const std::string projector = folder.write("p.suture", "only its place is looked at").string();
  const PinnedLaunchSpec spec{.model = "/models/large.gguf",
                              .program = {},
                              .folder = {},
                              .name = {},
                              .slave_gain = "0",
                              .slave = "/models/small.gguf",
                              .projector = projector,
                              .max_tokens = 2112};
  const LaunchSpec launch = parse_topology(topology_of(spec), "stitch.toml").value();
  const ModelSpec& follower = launch.models[1];
  EXPECT_EQ(follower.path_text, "/models/small.gguf");
  EXPECT_EQ(follower.fusion.mode, FusionMode::kProject);
  EXPECT_EQ(follower.fusion.projector.string(), projector);
  EXPECT_TRUE(follower.fusion.force);
}

}  // namespace
}  // namespace suture
