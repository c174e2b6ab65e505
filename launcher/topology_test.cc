#include "launcher/topology.h"

#include <gtest/gtest.h>

#include "launcher/test_topology.h"

namespace suture::topology_test {
namespace {

TEST_F(TopologyTest, ReadsEveryKey) {
  folder_.write("docs/a.txt", "A document.");
  const auto spec = parse(R"(
placement = "in-process"
warm_up = false
[bus]
max_seq_len = 4096
max_sequences = 2
max_queue = 3
[sampling]
temperature = 0.55
top_k = 20
top_p = 0.9
min_p = 0.05
repetition_penalty = 1.1
repetition_window = -1
seed = 7
max_tokens = 300
stop = ["END", "\nUser:"]
[[model]]
name = "reader"
role = "slave"
path = "smollm2-135m-instruct"
device = "cpu"
threads = 3
system = "You read."
documents = ["docs/a.txt"]
chat_format = "chatml"
on_failure = "fail"
fusion = { mode = "concat", position = "prefix", layer_map = "identity", gain = -2 }
[[model]]
name = "master"
role = "master"
path = "smollm2-135m-instruct"
)");
  ASSERT_TRUE(spec.has_value()) << spec.error().message();
  EXPECT_EQ(spec->placement, Placement::kInProcess);
  EXPECT_FALSE(spec->warm_up);
  EXPECT_EQ(spec->max_seq_len, 4096);
  EXPECT_EQ(spec->max_sequences, 2);
  EXPECT_EQ(spec->max_queue, 3);
  EXPECT_FLOAT_EQ(spec->sampling.temperature, 0.55f);
  EXPECT_EQ(spec->sampling.top_k, 20);
  EXPECT_FLOAT_EQ(spec->sampling.top_p, 0.9f);
  EXPECT_EQ(spec->sampling.seed, 7u);
  EXPECT_FLOAT_EQ(spec->sampling.min_p, 0.05f);
  EXPECT_FLOAT_EQ(spec->sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(spec->sampling.repetition_window, -1);
  EXPECT_EQ(spec->max_tokens, 300);
  EXPECT_EQ(spec->stop, (std::vector<std::string>{"END", "\nUser:"}));
  ASSERT_EQ(spec->models.size(), 2u);
  EXPECT_EQ(spec->master().name, "master");
  const ModelSpec& reader = spec->models[0];
  EXPECT_EQ(reader.threads, 3);
  EXPECT_EQ(reader.system, "You read.");
  ASSERT_EQ(reader.documents.size(), 1u);
  EXPECT_EQ(reader.documents[0], folder_.path() / "docs/a.txt");
  EXPECT_EQ(reader.chat_format, "chatml");
  EXPECT_EQ(reader.on_failure, OnFailure::kFail);
  EXPECT_EQ(reader.fusion.position, SlavePosition::kPrefix);
  EXPECT_EQ(reader.fusion.gain, -2);
}

TEST_F(TopologyTest, WarmsUpUnlessToldOtherwise) {
  EXPECT_TRUE(parse(std::string(kMaster)).value().warm_up);
  expect_error(parse("warm_up = 1\n" + std::string(kMaster)), ErrorCode::kInvalidArgument,
               "t.toml:1: warm_up", "expected true or false, got an integer");
}

TEST_F(TopologyTest, SaysWhenAProcessIsEndedAndHowOftenItIsStartedAgain) {
  const auto spec = parse("restarts = 0\n[bus]\nhung_after = 5\n" + std::string(kMaster));
  ASSERT_TRUE(spec.has_value()) << spec.error().message();
  EXPECT_EQ(spec->restarts, 0);
  EXPECT_EQ(spec->hung_after, std::chrono::seconds(5));
  expect_error(parse("restarts = -1\n" + std::string(kMaster)), ErrorCode::kInvalidArgument,
               "t.toml:1: restarts", "got -1");
  expect_error(parse("[bus]\nhung_after = 0\n" + std::string(kMaster)), ErrorCode::kInvalidArgument,
               "t.toml:2: bus.hung_after", "got 0");
}

TEST_F(TopologyTest, DefaultsAreThoseOfTheDesign) {
  const auto spec = parse(std::string(kMaster));
  ASSERT_TRUE(spec.has_value()) << spec.error().message();
  EXPECT_EQ(spec->placement, Placement::kProcesses);
  EXPECT_EQ(spec->max_seq_len, 8192);
  EXPECT_EQ(spec->restarts, 5);
  EXPECT_EQ(spec->hung_after, std::chrono::seconds(30));
  EXPECT_EQ(spec->max_sequences, 4);
  EXPECT_EQ(spec->max_queue, 16);
  EXPECT_FALSE(spec->models[0].system.has_value());
}

TEST_F(TopologyTest, ChatFormatsAreNamesOrPieces) {
  EXPECT_EQ(parse(std::string(kMaster) + "chat_format = \"gemma\"")->master().chat_format, "gemma");
  const auto spec = parse(std::string(kMaster) + R"([model.chat_format]
user_open = "<u>"
user_close = "\n"
assistant_open = "<a>"
assistant_close = "</a>"
system_close = "--"
default_system = "Hi."
system_in_user = true
stop = ["</a>", "<u>"]
)");
  ASSERT_TRUE(spec.has_value()) << spec.error().message();
  const ChatFormat expected = {.system_close = "--",
                               .user_open = "<u>",
                               .user_close = "\n",
                               .assistant_open = "<a>",
                               .assistant_close = "</a>",
                               .default_system = "Hi.",
                               .system_in_user = true,
                               .stop = {"</a>", "<u>"}};
  EXPECT_EQ(spec->master().chat_pieces, expected);
  const auto error = [&](const char* lines, const char* where, const char* what) {
    expect_error(parse(std::string(kMaster) + lines), ErrorCode::kInvalidArgument, where, what);
  };
  error("chat_format = \"gema\"", ":5: model[0].chat_format", "\"gema\" is not known");
  error("chat_format = 3", ":5: model[0].chat_format", "expected a text");
  error("chat_format = { user_open = \"<u>\" }", "chat_format.assistant_open", "at least");
  error("chat_format = { opening = \"<u>\" }", "chat_format.opening", "unknown key");
  error("chat_format = { system_in_user = 1 }", "chat_format.system_in_user", "true or false");
}

TEST_F(TopologyTest, UnknownKeysNameTheNearest) {
  const auto spec = parse_slave("thread = 2");
  expect_error(spec, ErrorCode::kInvalidArgument, "t.toml:9: model[1].thread", "unknown key");
  EXPECT_NE(spec.error().remedy.find("did you mean 'threads'"), std::string::npos);
  expect_error(parse("buss = 1\n" + std::string(kMaster)), ErrorCode::kInvalidArgument,
               "t.toml:1: buss", "unknown key");
}

TEST_F(TopologyTest, RopeKeysReplaceWhatTheFileSays) {
  const auto plain = parse_slave("");
  EXPECT_EQ(plain->models[1].rope_scaling, std::nullopt);
  EXPECT_EQ(plain->models[1].rope_length, 0);
  EXPECT_EQ(plain->models[1].rope_crossing, RopeCrossing::kKeep);
  const auto scaled = parse_slave(
      "rope_length = 65536\nrope_scaling = { type = \"yarn\", factor = 4, original = 32768 }");
  ASSERT_TRUE(scaled) << scaled.error().message();
  EXPECT_EQ(scaled->models[1].rope_scaling, (RopeScalingOverride{RopeScaling::kYarn, 4, 32768}));
  EXPECT_EQ(scaled->models[1].rope_length, 65536);
  const auto reread = parse(std::string(kMaster) + "rope_crossing = \"reread\"\n");
  ASSERT_TRUE(reread) << reread.error().message();
  EXPECT_EQ(reread->models[0].rope_crossing, RopeCrossing::kReread);
  expect_error(parse_slave("rope_crossing = \"reread\""), ErrorCode::kInvalidArgument,
               "t.toml:9: model[1].rope_crossing", "a slave keeps the rotation");
  expect_error(parse_slave("rope_scaling = { type = \"longrope\" }"), ErrorCode::kInvalidArgument,
               "rope_scaling.type", "\"dynamic\"");
  expect_error(parse_slave("rope_scaling = { factor = 2 }"), ErrorCode::kInvalidArgument,
               "rope_scaling.type", "'type' is missing");
  expect_error(parse_slave("rope_scaling = { type = \"linear\", factor = 0.5 }"),
               ErrorCode::kInvalidArgument, "rope_scaling.factor", "expected a number from 1");
  expect_error(parse_slave("rope_scaling = { kind = \"linear\" }"), ErrorCode::kInvalidArgument,
               "rope_scaling.kind", "unknown key");
  expect_error(parse_slave("rope_length = 0"), ErrorCode::kInvalidArgument, "rope_length",
               "expected an integer from 1");
}

TEST_F(TopologyTest, WhatIsNotBuiltYetIsRefusedByName) {
  for (const char* line : {"device = \"cuda:0\"", "device = \"host2:cuda:1\""})
    expect_error(parse_slave(line), ErrorCode::kUnsupported, "t.toml:9", "not supported");
  for (const char* line : {"gpu_sharing = \"mps\"\n"})
    expect_error(parse(line + std::string(kMaster)), ErrorCode::kUnsupported, "t.toml:1",
                 "not supported");
}

TEST_F(TopologyTest, WrongTypesAndRangesSayWhatWasExpected) {
  expect_error(parse_slave("threads = \"two\""), ErrorCode::kInvalidArgument,
               "t.toml:9: model[1].threads", "expected an integer from 1 to 1024, got a text");
  expect_error(parse_slave("threads = 0"), ErrorCode::kInvalidArgument, "threads", "got 0");
  expect_error(parse_slave("on_failure = \"degrad\""), ErrorCode::kInvalidArgument, "on_failure",
               "\"degrade\" or \"fail\"");
  expect_error(parse("[bus]\nmax_seq_len = 9223372036854775807\n" + std::string(kMaster)),
               ErrorCode::kInvalidArgument, "t.toml:2: bus.max_seq_len", "expected");
  expect_error(parse("model = 3"), ErrorCode::kInvalidArgument, "model", "[[model]]");
  expect_error(parse(""), ErrorCode::kInvalidArgument, "model", "[[model]]");
  expect_error(parse("a = ["), ErrorCode::kInvalidArgument, "t.toml:1", "");
}

TEST_F(TopologyTest, ThereIsExactlyOneMasterAndNamesAreUnique) {
  expect_error(parse(std::string(kMaster) + std::string(kMaster)), ErrorCode::kInvalidArgument,
               "model[1].name", "already the name of model[0]");
  expect_error(
      parse(std::string(kMaster) + "[[model]]\nname = \"b\"\nrole = \"master\"\npath = \"a\"\n"),
      ErrorCode::kInvalidArgument, "model[1].role", "second master");
  expect_error(parse("[[model]]\nname = \"b\"\nrole = \"slave\"\npath = \"a\"\n"),
               ErrorCode::kInvalidArgument, "model", "no model has role");
  expect_error(parse("[[model]]\nname = \"b c\"\nrole = \"master\"\npath = \"a\"\n"),
               ErrorCode::kInvalidArgument, "t.toml:2: model[0].name", "letters");
  expect_error(parse("[[model]]\nname = \"launcher\"\nrole = \"master\"\npath = \"a\"\n"),
               ErrorCode::kInvalidArgument, "t.toml:2: model[0].name", "launcher");
  expect_error(parse("[[model]]\nname = \"b\"\nrole = \"master\"\n"), ErrorCode::kInvalidArgument,
               "model[0].path", "missing");
}

TEST_F(TopologyTest, DocumentsMustBeReadableText) {
  const std::string fusion = "fusion = { position = \"prefix\" }\n";
  expect_error(parse_slave(fusion + "documents = [\"none.txt\"]"), ErrorCode::kNotFound,
               "t.toml:10: model[1].documents", "none.txt");
  folder_.write("bad.txt", "\xFF\xFE");
  expect_error(parse_slave(fusion + "documents = [\"bad.txt\"]"), ErrorCode::kInvalidArgument,
               "documents", "UTF-8");
  folder_.write("empty.txt", "");
  expect_error(parse_slave(fusion + "documents = [\"empty.txt\"]"), ErrorCode::kInvalidArgument,
               "documents", "empty");
  expect_error(parse_slave(fusion + "documents = [\".\"]"), ErrorCode::kInvalidArgument,
               "documents", "not a file");
}

TEST_F(TopologyTest, RoleAndPositionMustFitWhatIsAskedOfThem) {
  folder_.write("a.txt", "text");
  expect_error(parse(std::string(kMaster) + "fusion = { gain = 0 }"), ErrorCode::kInvalidArgument,
               "t.toml:5: model[0].fusion", "belongs to slaves");
  expect_error(parse_slave("fusion = { position = \"prefix\" }"), ErrorCode::kInvalidArgument,
               "documents", "nothing to read");
  expect_error(parse_slave("documents = [\"a.txt\"]"), ErrorCode::kInvalidArgument, "documents",
               "aligned");
  expect_error(parse_slave("system = \"You read.\""), ErrorCode::kInvalidArgument,
               "model[1].system", "aligned");
  EXPECT_TRUE(parse_slave("system = \"You.\"\nfusion = { position = \"prefix\" }").has_value());
  const auto later = parse_slave("documents = []\nfusion = { position = \"prefix\" }");
  ASSERT_TRUE(later.has_value()) << later.error().message();
  EXPECT_TRUE(later->models[1].documents_per_request);
  expect_error(parse_slave("documents = []"), ErrorCode::kInvalidArgument, "documents", "aligned");
  expect_error(parse_slave("documents = [\"a.txt\"]\nfusion = { position = \"prefix\", lag = 1 }"),
               ErrorCode::kInvalidArgument, "lag", "prefix");
}

TEST_F(TopologyTest, ResolvesPathsBesideTheTopology) {
  auto spec = parse(std::string(kMaster));
  ASSERT_TRUE(spec.has_value());
  const Status missing = resolve_models(*spec);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().where.find("model 'master': a.gguf"), std::string::npos);
  const auto path = folder_.write("a.gguf", "x");
  ASSERT_TRUE(resolve_models(*spec).has_value());
  EXPECT_EQ(spec->models[0].path, path);
}

TEST_F(TopologyTest, AFileThatIsNotThereIsNotFound) {
  EXPECT_EQ(load_topology(folder_.path() / "none.toml").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace suture::topology_test
