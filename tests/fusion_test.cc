// Models that differ, stitched by the program as users run it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <optional>

#include "base/test_folder.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

// A master of bytes; what the slave is, each test says.
class FusionSystemTest : public testing::Test {
 protected:
  FusionSystemTest() : master_(text_model({.vocabulary = master_vocabulary_, .n_layers = 4})) {
    folder_.write("document.txt", "the rain in the north on the other hand");
  }

  std::string topology(const TextModelOptions& slave, const std::string& slave_lines,
                       const std::string& file_lines = "") {
    slave_.emplace(text_model(slave));
    return folder_
        .write(
            "t.toml",
            fmt::format("{}\n[bus]\nmax_seq_len = 256\nmax_sequences = 2\n"
                        "[[model]]\nname = \"m\"\nrole = \"master\"\npath = \"{}\"\n"
                        "system = \"ab\"\n"
                        "[[model]]\nname = \"s\"\nrole = \"slave\"\npath = \"{}\"\n{}\n",
                        file_lines, master_.path().string(), slave_->path().string(), slave_lines))
        .string();
  }

  static std::string answer(const std::string& topology) {
    const SutureRun run = run_suture({"--json", "run", topology, "-p", "why so", "-n", "24"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const auto json = run.json().at("answers").at(0);
    EXPECT_TRUE(json.at("degraded").empty()) << json.dump();
    return json.at("token_ids").dump();
  }

  // Processes, one process, and again: the same tokens, which are not those of the master alone.
  void expect_fused(const TextModelOptions& slave, const std::string& fusion,
                    const std::string& more = "") {
    const auto lines = [&](const std::string& gain) {
      return fmt::format("fusion = {{ {}{} }}\n{}", fusion, gain, more);
    };
    const std::string fused = answer(topology(slave, lines("")));
    EXPECT_EQ(answer(topology(slave, lines(""), "placement = \"in-process\"")), fused);
    EXPECT_EQ(answer(topology(slave, lines(""))), fused);
    const std::string silent = answer(topology(slave, lines(", gain = -inf")));
    EXPECT_NE(silent, fused);
  }

  const Vocabulary master_vocabulary_ = make_chat_vocabulary({});
  const Vocabulary words_ = make_chat_vocabulary({"t h", "th e", "i n", "o n", "e r", "s y"});
  TestFolder folder_;
  const TemporaryFile master_;
  std::optional<TemporaryFile> slave_;
};

TEST_F(FusionSystemTest, AnAlignedSlaveOfAnotherVocabularyAndDepth) {
  expect_fused({.vocabulary = words_, .n_layers = 2, .seed = 3},
               "position = \"aligned\", layer_map = \"stride:2\"");
}

TEST_F(FusionSystemTest, APrefixSlaveOfAnotherVocabularyAndRotation) {
  expect_fused({.vocabulary = words_,
                .n_layers = 4,
                .seed = 3,
                .theta = 5e5f,
                .pairing = RopePairing::kNeighbours},
               "position = \"prefix\"", "documents = [\"document.txt\"]");
}

TEST_F(FusionSystemTest, ASlaveWithTheMastersNorms) {
  const TextModelOptions slave{
      .vocabulary = master_vocabulary_, .n_layers = 3, .seed = 3, .norm_scale = 2};
  const std::string fusion = "position = \"aligned\", layer_map = \"nearest\"";
  expect_fused(slave, fusion + ", norm = \"master\"");
  EXPECT_NE(answer(topology(slave, "fusion = { " + fusion + ", norm = \"master\" }")),
            answer(topology(slave, "fusion = { " + fusion + " }")));
}

// A slave left out before the first row gives the master alone, and the reply says so.
TEST_F(FusionSystemTest, BeyondStitchUntilTheReplySaysWhoWasLeftOut) {
  const TextModelOptions slave{.vocabulary = master_vocabulary_, .n_layers = 4, .seed = 3};
  const std::string silent = answer(topology(slave, "fusion = { gain = -inf }"));
  const std::string limited = topology(slave, "", "stitch_until = 1");
  const SutureRun run = run_suture({"--json", "run", limited, "-p", "why so", "-n", "24"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto json = run.json().at("answers").at(0);
  EXPECT_EQ(json.at("token_ids").dump(), silent);
  ASSERT_EQ(json.at("degraded").size(), 1u);
  EXPECT_NE(json.at("degraded")[0].dump().find("stitch_until"), std::string::npos);
}

TEST_F(FusionSystemTest, CheckListsConditionsVerdictsAndWarnings) {
  const std::string fits = topology({.vocabulary = words_, .n_layers = 2, .seed = 3, .theta = 5e5f},
                                    "fusion = { layer_map = \"stride:2\" }", "stitch_until = 9999");
  const SutureRun good = run_suture({"--json", "check", fits});
  EXPECT_EQ(good.exit_code, 0) << good.errors;
  const auto json = good.json();
  EXPECT_EQ(json.at("ok"), true);
  std::map<std::string, std::string> verdicts;
  for (const auto& row : json.at("slaves").at(0).at("rows")) {
    verdicts[row.at("condition")] = row.at("verdict");
    EXPECT_EQ(row.at("remedy").get<std::string>().empty(), row.at("verdict") == "ok") << row;
  }
  const std::map<std::string, std::string> expected = {{"vocabulary", "converted"},
                                                       {"layers", "converted"},
                                                       {"kv heads", "ok"},
                                                       {"head dimension", "ok"},
                                                       {"rope theta", "converted"},
                                                       {"rope scaling", "ok"},
                                                       {"rope pairing", "ok"},
                                                       {"max positions", "ok"},
                                                       {"window", "ok"},
                                                       {"kv type", "ok"},
                                                       {"norms", "ok"}};
  EXPECT_EQ(verdicts, expected);
  ASSERT_EQ(json.at("warnings").size(), 1u);
  EXPECT_NE(json.at("warnings")[0].get<std::string>().find("stitch_until = 9999"),
            std::string::npos);

  const SutureRun bad = run_suture(
      {"check", topology({.vocabulary = words_, .n_layers = 2}, "fusion = { norm = \"master\" }")});
  EXPECT_EQ(bad.exit_code, 3) << bad.output;
  EXPECT_NE(bad.output.find("refused"), std::string::npos) << bad.output;
  EXPECT_NE(bad.errors.find("layers 4 and 2"), std::string::npos) << bad.errors;
}

}  // namespace
}  // namespace suture
