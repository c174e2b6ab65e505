// The commands on pulled models, against tests/data/real.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/test_folder.h"
#include "launcher/manifest.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

using nlohmann::json;

std::filesystem::path pulled(const std::string& name) {
  return cached_model_path(*find_model(name), model_cache_folder());
}

#define SUTURE_REQUIRE_PULLED(name)           \
  if (!std::filesystem::exists(pulled(name))) \
  GTEST_SKIP() << pulled(name) << " is not there: suture models pull " << (name)

json golden_prompts(const std::string& file) {
  return json::parse(std::ifstream(std::string(SUTURE_TEST_DATA_DIR) + "/real/" + file))["prompts"];
}

TEST(CommandsRealTest, ScoreStaysNearTheFloatReference) {
  SUTURE_REQUIRE_PULLED("smollm2-135m-instruct");
  for (const json& prompt : golden_prompts("smol.json")) {
    if (prompt["n_tokens"] > 60) continue;  // a few are enough for the command; models/ tests all
    const SutureRun run = run_suture(
        {"score", "smollm2-135m-instruct", "--ids", "-", "--greedy", "8"}, prompt["ids"].dump());
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const json result = run.json();
    const std::string name = prompt["name"];
    // K and V are rounded to 16 bits: limits of the goldens' README for that.
    EXPECT_NEAR(result["logsumexp"], prompt["logsumexp"], 0.8) << name;
    const double nll = prompt["nll"];
    EXPECT_NEAR(result["mean_nll"], nll, 0.03 * nll) << name;
    EXPECT_EQ(result["greedy"].size(), 8u) << name;
    if (prompt["greedy_margin"][0] > 0.3) {
      EXPECT_EQ(result["greedy"][0], prompt["greedy"][0]) << name;
    }
  }
}

TEST(CommandsRealTest, TokenizeGivesIdsAndPieces) {
  SUTURE_REQUIRE_PULLED("smollm2-135m-instruct");
  const json result =
      run_suture({"tokenize", "smollm2-135m-instruct"}, "Hello world <|im_end|> \xF0\x9F\x9A")
          .json();
  ASSERT_EQ(result["ids"].size(), result["pieces"].size());
  std::string text;
  for (const auto& piece : result["pieces"]) text += piece.get<std::string>();
  EXPECT_EQ(text, "Hello world <|im_end|> <0xF0><0x9F><0x9A>");
  const json special =
      run_suture({"tokenize", "smollm2-135m-instruct", "--special"}, "<|im_end|>").json();
  ASSERT_EQ(special["ids"].size(), 1u);
  EXPECT_EQ(special["pieces"][0], "<|im_end|>");
}

TEST(CommandsRealTest, ACutModelFileIsCorrupt) {
  SUTURE_REQUIRE_PULLED("smollm2-135m-instruct");
  const TestFolder folder;
  std::string start(4 << 20, '\0');
  std::ifstream(pulled("smollm2-135m-instruct"), std::ios::binary)
      .read(start.data(), static_cast<std::streamsize>(start.size()));
  for (size_t bytes : {10u, 1000u, 100'000u, 4u << 20}) {
    const auto path = folder.write("cut.gguf", std::string_view(start).substr(0, bytes));
    const SutureRun run = run_suture({"score", path.string(), "--ids", "-", "--json"}, "[1]");
    EXPECT_EQ(run.exit_code, 1) << bytes;
    EXPECT_EQ(run.json()["error"]["code"], "corrupt") << bytes << run.output;
  }
}

TEST(CommandsRealTest, GemmaIsInspectedAndScored) {
  SUTURE_REQUIRE_PULLED("gemma-3-270m");
  const json inspected = run_suture({"inspect", "gemma-3-270m", "--json"}).json();
  EXPECT_EQ(inspected["runnable"], true);
  EXPECT_EQ(inspected["config"]["family"], "gemma3");
  EXPECT_EQ(inspected["config"]["window"], "512 in 15 of 18 layers");
  const SutureRun run = run_suture({"score", "gemma-3-270m", "--ids", "-", "--json"}, "[2, 3]");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(run.json()["token_nll"].size(), 1u);
}

TEST(CommandsRealTest, BenchMeasuresEngineAndMachine) {
  SUTURE_REQUIRE_PULLED("smollm2-135m-instruct");
  const SutureRun run = run_suture({"bench", "smollm2-135m-instruct", "--threads", "1", "--prompt",
                                    "64", "--generate", "8", "--rounds", "2", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const json result = run.json();
  EXPECT_EQ(result["model"], "smollm2-135m-instruct");
  EXPECT_EQ(result["threads"], 1);
  EXPECT_EQ(result["n"], 2);
  for (const char* figure : {"prefill_tok_s", "decode_tok_s", "read_gb_s", "limit_gb_s", "gflop_s",
                             "limit_gflop_s", "load_s"})
    EXPECT_GT(result[figure].get<double>(), 0) << figure;
  // Nothing computes faster than its own registers; so small a model may lie in the caches, and be
  // read faster than memory.
  EXPECT_LT(result["share_of_flop_limit"].get<double>(), 1.0);
  const double read_share = result["read_gb_s"].get<double>() / result["limit_gb_s"].get<double>();
  EXPECT_NEAR(result["share_of_read_limit"].get<double>() / read_share, 1, 1e-3);
  const auto file_bytes =
      static_cast<double>(std::filesystem::file_size(pulled("smollm2-135m-instruct")));
  EXPECT_GT(result["rss_bytes"].get<double>(), 0.5 * file_bytes);
  EXPECT_LT(result["rss_bytes"].get<double>(), 5 * file_bytes);
}

TEST(CommandsRealTest, BenchRefusesWhatTheModelCannotHold) {
  SUTURE_REQUIRE_PULLED("smollm2-135m-instruct");
  const SutureRun run = run_suture(
      {"bench", "smollm2-135m-instruct", "--prompt", "8192", "--generate", "1", "--json"});
  EXPECT_EQ(run.exit_code, 2) << run.errors;
  EXPECT_NE(run.errors.find("8193 tokens, more than the 8192"), std::string::npos) << run.errors;
}

}  // namespace
}  // namespace suture
