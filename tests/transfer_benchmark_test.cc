// The transfer benchmark by the program as users run it, with small models that know nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "fusion/projector_file.h"
#include "fusion/test_projector.h"
#include "launcher/transfer/transfer_models.h"
#include "models/test_text_model.h"
#include "models/test_vocabulary.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

class TransferBenchmarkTest : public testing::Test {
 protected:
  TransferBenchmarkTest()
      : model_(text_model({.vocabulary = make_chat_vocabulary({}), .n_layers = 3})),
        other_(text_model({.vocabulary = make_chat_vocabulary({}), .n_layers = 2, .seed = 3})) {
    std::string lines;
    for (const char* text :
         {"the rain in the north on the other hand is not what it was in the year before this one",
          "a ship that sails at noon will be here by the evening if the wind does not turn round",
          "nobody knows who first drew a map of these hills and why the river has been left out"})
      lines += fmt::format("{{\"text\": \"{}\", \"kind\": \"{}\"}}\n", text, text[0]);
    texts_ = folder_.write("texts.jsonl", lines).string();
  }

  SutureRun run(const std::vector<std::string>& more, const std::string& lengths = "32") const {
    std::vector<std::string> arguments = {"transfer",
                                          "--source",
                                          model_.path().string(),
                                          "--target",
                                          model_.path().string(),
                                          "--text",
                                          texts_,
                                          "--lengths",
                                          lengths,
                                          "--sink",
                                          "2",
                                          "--reread",
                                          "6",
                                          "--threads",
                                          "1",
                                          "--continue",
                                          "16"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_suture(arguments);
  }

  TestFolder folder_;
  const TemporaryFile model_;
  const TemporaryFile other_;
  std::string texts_;
};

TEST_F(TransferBenchmarkTest, WhatAModelReadItGoesOnFrom) {
  const std::string out = (folder_.path() / "report.txt").string();
  const SutureRun done = run({"--json", "--out", out}, "32,64,128");
  ASSERT_EQ(done.exit_code, 0) << done.errors;
  const nlohmann::json json = done.json();
  EXPECT_EQ(json.at("sound"), true);
  EXPECT_TRUE(json.at("projector").is_null());
  ASSERT_EQ(json.at("contexts").size(), 3u);
  for (const auto& context : json.at("contexts")) {
    SCOPED_TRACE(context.at("tokens").get<int>());
    EXPECT_GT(context.at("normal_s"), 0);
    EXPECT_GT(context.at("source_s"), 0);
    EXPECT_GT(context.at("transfer_s"), 0);
    EXPECT_GT(context.at("speedup_with_source"), 0);
    EXPECT_GT(context.at("speedup_without_source"), context.at("speedup_with_source"));
    EXPECT_EQ(context.at("joined"), context.at("tokens") == 128);
    if (context.at("joined") == true) continue;
    EXPECT_EQ(context.at("n"), 3);
    const auto& nll = context.at("nll");
    // Its own rows are as good as its own reading; chunks of a prompt may end elsewhere.
    EXPECT_NEAR(nll.at("transferred"), nll.at("self"), 1e-3);
    EXPECT_EQ(context.at("source_nll"), nll.at("self"));
    EXPECT_LT(context.at("kl"), 1e-3);
    EXPECT_GE(context.at("top1"), 0.95);
    EXPECT_GT(std::abs(nll.at("other_text").get<double>() - nll.at("self").get<double>()), 1e-4);
    EXPECT_NE(nll.at("text_only"), nll.at("self"));
    EXPECT_NE(nll.at("other_text"), nll.at("text_only"));
    EXPECT_NE(nll.at("none"), nll.at("self"));
    EXPECT_GT(context.at("arms").at("other_text").at("kl"), 0);
    EXPECT_EQ(context.at("kinds").size(), 3u);
  }
  std::ifstream file(out);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find("  128*"), std::string::npos) << text;
  EXPECT_NE(text.find("At 64 tokens (3 texts) the transferred target keeps"), std::string::npos)
      << text;
}

// Random maps carry nothing, which is what their evidence says then.
TEST_F(TransferBenchmarkTest, WhatWasMeasuredIsTheProjectorsEvidence) {
  const TransferModel source = open_transfer_model(other_.path().string()).value();
  const TransferModel target = open_transfer_model(model_.path().string()).value();
  TestProjector projector(DType::kBf16, {{{0}, {0}}, {{0, 1}, {1}}, {{1}, {0, 1}}}, source.config,
                          target.config);
  projector.value.source = source.side();
  projector.value.target = target.side();
  projector.value.evidence.reset();
  const std::string path = (folder_.path() / "p.suture").string();
  ASSERT_TRUE(write_projector(path, projector.value));
  const SutureRun done = run_suture({"--json",          "transfer",
                                     "--source",        other_.path().string(),
                                     "--target",        model_.path().string(),
                                     "--projector",     path,
                                     "--text",          texts_,
                                     "--lengths",       "32",
                                     "--continue",      "16",
                                     "--sink",          "2",
                                     "--reread",        "6",
                                     "--threads",       "1",
                                     "--write-evidence"});
  ASSERT_EQ(done.exit_code, 0) << done.errors;
  const auto context = done.json().at("contexts").at(0);
  EXPECT_EQ(context.at("n"), 3);
  EXPECT_GT(context.at("projection_s"), 0);
  EXPECT_NE(context.at("nll").at("transferred"), context.at("nll").at("self"));
  EXPECT_NE(context.at("nll").at("transferred"), context.at("nll").at("text_only"));
  EXPECT_NE(context.at("nll").at("transferred"), context.at("nll").at("other_text"));
  const auto evidence = read_projector(path)->evidence;
  ASSERT_TRUE(evidence);
  EXPECT_EQ(evidence->sink, 2);
  EXPECT_EQ(evidence->reread, 6);
  EXPECT_EQ(evidence->continued, 16);
  ASSERT_EQ(evidence->contexts.size(), 1u);
  EXPECT_EQ(evidence->contexts[0].tokens, 32);
  EXPECT_EQ(evidence->contexts[0].nll.transferred, context.at("nll").at("transferred"));
  EXPECT_EQ(evidence->contexts[0].nll.none, context.at("nll").at("none"));
  EXPECT_EQ(evidence->contexts[0].consistency, context.at("consistency"));
}

TEST_F(TransferBenchmarkTest, WhatCannotBeMeasuredIsRefused) {
  const auto refused = [&](const std::vector<std::string>& more, int exit_code,
                           const std::string& part) {
    const SutureRun done = run(more);
    EXPECT_EQ(done.exit_code, exit_code) << done.errors;
    EXPECT_NE(done.errors.find(part), std::string::npos) << done.errors;
    EXPECT_EQ(done.output, "");
  };
  refused({"--text", "/no/such/file.txt"}, 1, "/no/such/file.txt: no such file");
  refused({"--text", folder_.write("empty.txt", "").string()}, 2, "holds no text");
  refused({"--projector", texts_}, 2, texts_);
  refused({"--out", "/no/such/folder/report"}, 1, "cannot write the report");
  const SutureRun too_long = run({}, "200");
  EXPECT_EQ(too_long.exit_code, 2) << too_long.errors;
  EXPECT_NE(too_long.errors.find("no text has the 200 tokens"), std::string::npos);
  const SutureRun pair = run_suture({"transfer", "--source", model_.path().string(), "--target",
                                     other_.path().string(), "--text", texts_});
  EXPECT_EQ(pair.exit_code, 3) << pair.errors;
  EXPECT_NE(pair.errors.find("suture fit"), std::string::npos) << pair.errors;
}

}  // namespace
}  // namespace suture
