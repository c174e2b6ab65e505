// Evaluations by the program as users run it, with small models that know nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/test_folder.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

constexpr const char* kChoices =
    R"({"passage": "It rained.", "question": "What was it?", "options": ["wet", "dry"], "answer": 0}
{"passage": "It shone.", "question": "How was it?", "options": ["a", "bc", "d"], "answer": 2}
{"passage": "", "question": "Who?", "options": ["he", "she"], "answer": 1}
)";
constexpr const char* kDocuments =
    R"({"id": "1", "lang": "en", "kind": "fact", "documents": ["the rain", "in the north"], "question": "Where?", "answer": "north", "expect": ["north"]}
{"id": "2", "lang": "en", "kind": "fact", "documents": ["on the other", "hand"], "question": "Which?", "answer": "other", "expect": ["other"]}
)";

class EvalSystemTest : public testing::Test {
 protected:
  EvalSystemTest()
      : master_(text_model({.vocabulary = vocabulary(), .n_layers = 3})),
        slave_(text_model({.vocabulary = vocabulary(), .n_layers = 3, .seed = 3})),
        choices_(folder_.write("choices.jsonl", kChoices)),
        documents_(folder_.write("documents.jsonl", kDocuments)) {}

  static Vocabulary vocabulary() {
    Vocabulary vocabulary = make_byte_vocabulary(
        {}, {{"<|im_start|>", TokenKind::kControl}, {"<|im_end|>", TokenKind::kControl}});
    vocabulary.eos_id = static_cast<int32_t>(vocabulary.pieces.size()) - 1;
    return vocabulary;
  }
  std::string topology(const std::string& lines) {
    return folder_
        .write("t.toml", fmt::format("[bus]\nmax_seq_len = 256\nmax_sequences = 2\n"
                                     "[[model]]\nname = \"m\"\nrole = \"master\"\npath = \"{}\"\n"
                                     "system = \"ab\"\n[[model]]\nname = \"s\"\n"
                                     "role = \"slave\"\npath = \"{}\"\n{}\n",
                                     master_.path().string(), slave_.path().string(), lines))
        .string();
  }
  // Answers of an arm by item, of the first task.
  static std::map<std::string, std::string> answers(const nlohmann::json& json,
                                                    const std::string& name) {
    std::map<std::string, std::string> answers;
    for (const auto& arm : json.at("tasks").at(0).at("arms"))
      if (arm.at("name") == name)
        for (const auto& item : arm.at("items")) answers[item.at("id")] = item.at("answer");
    return answers;
  }

  TestFolder folder_;
  const TemporaryFile master_;
  const TemporaryFile slave_;
  const std::filesystem::path choices_;
  const std::filesystem::path documents_;
};

TEST_F(EvalSystemTest, ChoicesAreJudgedInTwoWaysAndASilentSlaveIsTheMasterAlone) {
  const SutureRun run =
      run_suture({"--json", "eval", topology("fusion = { position = \"aligned\" }"), "--set",
                  choices_.string(), "--gain=-inf,0", "-n", "8"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const nlohmann::json json = run.json();
  EXPECT_EQ(json.at("complete"), true);
  ASSERT_EQ(json.at("tasks").size(), 2u);
  EXPECT_EQ(json.at("tasks")[0].at("metric"), "option text");
  EXPECT_EQ(json.at("tasks")[1].at("metric"), "option letter");
  const auto& arms = json.at("tasks")[0].at("arms");
  EXPECT_EQ(arms.size(), 7u);  // alone, slave, hand-off, two gains and their controls
  for (const auto& arm : arms) {
    EXPECT_EQ(arm.at("n"), 3) << arm.dump();
    EXPECT_EQ(arm.at("degraded"), 0);
  }
  EXPECT_EQ(answers(json, "stitched, gain -inf"), answers(json, "master alone"));
  EXPECT_EQ(answers(json, "stitched, another item's message, gain -inf"),
            answers(json, "master alone"));
}

TEST_F(EvalSystemTest, TextsAreJudgedByTheirSecondHalf) {
  const auto texts = folder_.write("texts.jsonl",
                                   "{\"text\":\"the rain and the wind and the rain\"}\n"
                                   "{\"text\":\"a wet day and a dry day in the rain\"}\n");
  const SutureRun run =
      run_suture({"--json", "eval", topology("fusion = { position = \"aligned\" }"), "--set",
                  texts.string(), "--gain=-inf,0", "--arms", "alone,stitched"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const nlohmann::json json = run.json();
  const auto& arms = json.at("tasks")[0].at("arms");
  ASSERT_EQ(arms.size(), 3u);
  EXPECT_LT(arms[0].at("score"), 0);
  EXPECT_EQ(arms[1].at("score"), arms[0].at("score"));  // the slave is silent
  EXPECT_NE(arms[2].at("score"), arms[0].at("score"));
}

TEST_F(EvalSystemTest, DocumentsChangeWithTheItem) {
  const std::string report = (folder_.path() / "report.md").string();
  const SutureRun run = run_suture(
      {"--json", "eval", topology("documents = []\nfusion = { position = \"prefix\" }"), "--set",
       documents_.string(), "-n", "8", "--arms", "alone,stitched,shuffled", "--out", report});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const nlohmann::json json = run.json();
  const auto stitched = answers(json, "stitched");
  EXPECT_EQ(stitched.size(), 2u);
  EXPECT_NE(stitched, answers(json, "master alone"));
  EXPECT_NE(stitched, answers(json, "stitched, another item's message"));
  std::ifstream file(report);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find("| stitched | 2 |"), std::string::npos) << text;
}

TEST_F(EvalSystemTest, TellsWhereTheMasterLooks) {
  const std::string spec = topology("documents = []\nfusion = { position = \"prefix\" }");
  for (const std::string& set : {choices_.string(), documents_.string()}) {
    const SutureRun run = run_suture({"--json", "eval", spec, "--set", set, "-n", "4", "--arms",
                                      "alone,stitched", "--keyword", "rain"});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const nlohmann::json json = run.json();
    for (const auto& task : json.at("tasks")) {
      const nlohmann::json& alone = task.at("arms").at(0).at("attention");
      EXPECT_EQ(alone.at("models"), (std::vector<std::string>{"m"}));
      EXPECT_NEAR(alone.at("mean")[0].get<double>(), 1, 1e-5);
      const nlohmann::json& stitched = task.at("arms").at(1).at("attention");
      EXPECT_EQ(stitched.at("models"), (std::vector<std::string>{"m", "s"}));
      EXPECT_EQ(stitched.at("items"), task.at("arms").at(1).at("n"));
      ASSERT_EQ(stitched.at("layers").size(), 3u);
      for (const auto& layer : stitched.at("layers"))
        EXPECT_NEAR(layer[0].get<double>() + layer[1].get<double>(), 1, 1e-5);
      EXPECT_GT(stitched.at("mean")[1], 0.01);
      // It is in what the slave reads, not in what the master does.
      const nlohmann::json& rain = stitched.at("keywords").at(0).at("mean");
      EXPECT_EQ(rain[0], 0);
      EXPECT_GT(rain[1], 0);
      EXPECT_LT(rain[1], stitched.at("mean")[1]);
    }
  }
}

TEST_F(EvalSystemTest, WhatCannotBeEvaluatedIsRefused) {
  const std::string spec = topology("fusion = { position = \"aligned\" }");
  EXPECT_EQ(run_suture({"eval", spec, "--set", "/no/such/file"}).exit_code, 1);
  const SutureRun arm = run_suture({"eval", spec, "--set", choices_.string(), "--arms", "stiched"});
  EXPECT_EQ(arm.exit_code, 2);
  EXPECT_NE(arm.errors.find("stiched"), std::string::npos) << arm.errors;
  const SutureRun word =
      run_suture({"eval", spec, "--set", choices_.string(), "--keyword", "snowed"});
  EXPECT_EQ(word.exit_code, 2);
  EXPECT_NE(word.errors.find("'snowed'"), std::string::npos) << word.errors;
}

}  // namespace
}  // namespace suture
