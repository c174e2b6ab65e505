#include "launcher/topology_fusion.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "launcher/test_topology.h"

namespace suture::topology_test {
namespace {

TEST_F(TopologyTest, GainMayBeMinusInfinityOrPerLayer) {
  auto spec = parse_slave("fusion = { gain = -inf, lag = 2 }");
  ASSERT_TRUE(spec.has_value()) << spec.error().message();
  EXPECT_TRUE(std::isinf(spec->models[1].fusion.gain));
  EXPECT_EQ(spec->models[1].fusion.lag, 2);
  spec = parse_slave("fusion = { gain = [0, -1.5, -inf] }");
  ASSERT_TRUE(spec.has_value()) << spec.error().message();
  EXPECT_EQ(spec->models[1].fusion.layer_gain.size(), 3u);
  expect_error(parse_slave("fusion = { gain = nan }"), ErrorCode::kInvalidArgument,
               "t.toml:9: model[1].fusion.gain", "expected a number");
  expect_error(parse_slave("fusion = { gain = inf }"), ErrorCode::kInvalidArgument, "gain", "inf");
  expect_error(parse_slave("fusion = { gain = [0, \"x\"] }"), ErrorCode::kInvalidArgument, "gain",
               "expected numbers");
}

TEST_F(TopologyTest, LayerMapsAreWordsOrTables) {
  const auto map_of = [](const Result<LaunchSpec>& spec) {
    EXPECT_TRUE(spec) << spec.error().message();
    return spec->models[1].fusion.layer_map;
  };
  EXPECT_EQ(map_of(parse_slave("")), LayerMapSpec{});
  EXPECT_EQ(map_of(parse_slave("fusion = { layer_map = \"stride:2\" }")),
            parse_layer_map("stride:2").value());
  const LayerMapSpec table = map_of(parse_slave("fusion = { layer_map = [-1, 0, 3] }"));
  EXPECT_EQ(table.kind, LayerMapSpec::Kind::kTable);
  EXPECT_EQ(table.table, (std::vector<int64_t>{-1, 0, 3}));
  expect_error(parse_slave("fusion = { layer_map = \"stride\" }"), ErrorCode::kInvalidArgument,
               "t.toml:9: model[1].fusion.layer_map", "\"nearest\"");
  expect_error(parse_slave("fusion = { layer_map = [] }"), ErrorCode::kInvalidArgument, "layer_map",
               "expected 1 to 1024 layers");
  for (const char* bad : {"-2", "1024", "1.5", "\"0\""})
    expect_error(parse_slave(std::string("fusion = { layer_map = [0, ") + bad + "] }"),
                 ErrorCode::kInvalidArgument, "layer_map", "expected layers from 0 to 1023");
}

TEST_F(TopologyTest, NormsAndTheLimitOfStitchingAreRead) {
  EXPECT_EQ(parse_slave("")->models[1].fusion.norm, NormSource::kOwn);
  EXPECT_EQ(parse_slave("fusion = { norm = \"master\" }")->models[1].fusion.norm,
            NormSource::kMaster);
  expect_error(parse_slave("fusion = { norm = \"slave\" }"), ErrorCode::kInvalidArgument, "norm",
               "\"own\" or \"master\"");
  EXPECT_EQ(parse(std::string(kMaster))->stitch_limit(), 24576);
  const auto limited = parse("stitch_until = 5000\n" + std::string(kMaster));
  ASSERT_TRUE(limited) << limited.error().message();
  EXPECT_EQ(limited->stitch_until, 5000);
  EXPECT_EQ(limited->stitch_limit(), 5000);
  expect_error(parse("stitch_until = 0\n" + std::string(kMaster)), ErrorCode::kInvalidArgument,
               "t.toml:1: stitch_until", "got 0");
}

TEST_F(TopologyTest, SlavesWhoseRowsAreMappedOrStandInPlaceOfTheMasters) {
  const auto path = folder_.write("p.suture", "x");
  const auto fusion = [&](const std::string& text) {
    return parse_slave("fusion = { " + text + " }");
  };
  const auto project =
      fusion("mode = \"project\", projector = \"p.suture\", force = true, lag = 2");
  ASSERT_TRUE(project.has_value()) << project.error().message();
  EXPECT_EQ(project->models[1].fusion.projector, path);
  EXPECT_TRUE(project->models[1].fusion.force);
  EXPECT_TRUE(project->models[1].projects());
  EXPECT_FALSE(project->models[1].transfers());
  const auto identity = fusion("mode = \"transfer\", sink = 0, reread = 7, gain = -inf");
  ASSERT_TRUE(identity.has_value()) << identity.error().message();
  EXPECT_TRUE(identity->models[1].transfers());
  EXPECT_FALSE(identity->models[1].projects());
  EXPECT_EQ(identity->models[1].fusion.sink, 0);
  EXPECT_EQ(identity->models[1].fusion.reread, 7);
  const auto mapped = fusion("mode = \"transfer\", projector = \"p.suture\", apply = \"writer\"");
  ASSERT_TRUE(mapped.has_value()) << mapped.error().message();
  EXPECT_TRUE(mapped->models[1].projects_in(ProjectorUse::kWriter));
  const auto by_master =
      fusion("mode = \"transfer\", projector = \"p.suture\", apply = \"reader\"");
  ASSERT_TRUE(by_master.has_value()) << by_master.error().message();
  EXPECT_TRUE(by_master->models[1].projects_in(ProjectorUse::kReader));
  EXPECT_FALSE(by_master->models[1].projects_in(ProjectorUse::kWriter));
  EXPECT_FALSE(by_master->models[0].projects_in(ProjectorUse::kReader));
  EXPECT_EQ(mapped->models[1].fusion.sink, 4);
  EXPECT_EQ(mapped->models[1].fusion.reread, 32);
  EXPECT_EQ(fusion("mode = \"auto\"")->models[1].fusion.mode, FusionMode::kAuto);
}

TEST_F(TopologyTest, SlavesThatHandWordsOver) {
  folder_.write("p.suture", "x");
  const auto spec = parse_slave("fusion = { mode = \"text\" }");
  ASSERT_TRUE(spec.has_value()) << spec.error().message();
  const ModelSpec& slave = spec->models[1];
  EXPECT_TRUE(slave.hands_over());
  EXPECT_FALSE(slave.reads_masters_tokens());
  EXPECT_EQ(slave.fusion.draft, 256);
  EXPECT_EQ(spec->longest_sequence(slave), spec->max_seq_len + 256);
  const auto brief = parse_slave("fusion = { mode = \"text\", draft = 9 }");
  EXPECT_EQ(brief->models[1].fusion.draft, 9);
  expect_error(parse_slave("fusion = { mode = \"text\", draft = 0 }"), ErrorCode::kInvalidArgument,
               "model[1].fusion.draft", "expected an integer from 1 to 4096");
  for (const char* key :
       {"layer_map = \"nearest\"", "norm = \"own\"", "gain = 0", "lag = 1", "sink = 4",
        "reread = 32", "projector = \"p.suture\"", "force = true", "apply = \"writer\""})
    expect_error(parse_slave(fmt::format("fusion = {{ mode = \"text\", {} }}", key)),
                 ErrorCode::kInvalidArgument, "model[1].fusion.", "says nothing in mode \"text\"");
}

TEST_F(TopologyTest, SlavesThatDraft) {
  folder_.write("p.suture", "x");
  for (const char* mode : {"mode = \"concat\"", "mode = \"project\", projector = \"p.suture\"",
                           "mode = \"transfer\"", "mode = \"auto\""}) {
    const auto spec = parse_slave(fmt::format("fusion = {{ {}, draft = 64 }}", mode));
    ASSERT_TRUE(spec.has_value()) << spec.error().message();
    EXPECT_EQ(spec->models[1].fusion.draft, 64);
    EXPECT_TRUE(spec->models[1].drafts());
    EXPECT_EQ(spec->longest_sequence(spec->models[1]), spec->max_seq_len + 64);
    EXPECT_EQ(spec->longest_sequence(spec->models[0]), spec->max_seq_len);
  }
  EXPECT_FALSE(parse_slave("fusion = { gain = -inf, draft = 64 }")->models[1].drafts());
  EXPECT_FALSE(parse_slave("fusion = { draft = 0 }")->models[1].drafts());
  expect_error(parse_slave("fusion = { mode = \"project\", projector = \"p.suture\", "
                           "apply = \"reader\", draft = 4 }"),
               ErrorCode::kInvalidArgument, "model[1].fusion.draft",
               "mapped by the slave's process");
  for (const char* wrong : {"-1", "4097", "1.5", "true"})
    expect_error(parse_slave(fmt::format("fusion = {{ draft = {} }}", wrong)),
                 ErrorCode::kInvalidArgument, "model[1].fusion.draft",
                 "expected an integer from 0 to 4096");
}

TEST_F(TopologyTest, KeysThatSayNothingInAModeAreRefused) {
  folder_.write("p.suture", "x");
  const auto expect = [&](const std::string& text, const std::string& key, const std::string& what,
                          ErrorCode code = ErrorCode::kInvalidArgument) {
    expect_error(parse_slave("fusion = { " + text + " }"), code, "model[1].fusion." + key, what);
  };
  const std::string projector = ", projector = \"p.suture\"";
  expect("mode = \"project\"", "projector", "needs a projector");
  expect("mode = \"project\", projector = \"none.suture\"", "projector", "none.suture",
         ErrorCode::kNotFound);
  expect("mode = \"concat\"" + projector, "projector", "says nothing in mode \"concat\"");
  expect("sink = 2", "sink", "says nothing in mode \"concat\"");
  expect("mode = \"project\", reread = 2" + projector, "reread", "says nothing");
  expect("mode = \"project\", layer_map = \"nearest\"" + projector, "layer_map", "says nothing");
  expect("mode = \"transfer\", lag = 1", "lag", "says nothing");
  expect("mode = \"transfer\", norm = \"master\"", "norm", "says nothing");
  expect("mode = \"transfer\", reread = 0", "reread", "expected an integer from 1");
  expect("mode = \"transfer\", force = true", "force", "there is none");
  expect("mode = \"transfer\", position = \"prefix\"", "position", "no other");
  expect("mode = \"auto\", sink = 2", "sink", "says nothing");
  expect("mode = \"both\"", "mode", "\"transfer\"");
}

TEST_F(TopologyTest, ASlaveThatTransfersIsTheOnlyOne) {
  const auto two = parse_slave(
      "fusion = { mode = \"transfer\" }\n[[model]]\nname = \"other\"\nrole = \"slave\"\n"
      "path = \"a.gguf\"\n");
  expect_error(two, ErrorCode::kInvalidArgument, "model", "other slaves beside it");
}

}  // namespace
}  // namespace suture::topology_test
