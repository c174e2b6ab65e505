// What the commands say when something is wrong, and that --json keeps its promise.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "base/test_folder.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

const std::string kLlama = SUTURE_TEST_DATA_DIR "/tiny/llama";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A failure says what, where and what to do, on standard error and, with --json, as JSON.
void expect_failure(const std::vector<std::string>& arguments, int exit_code,
                    const std::string& code, const std::string& what,
                    const std::string& input = {}) {
  const SutureRun plain = run_suture(arguments, input);
  EXPECT_EQ(plain.exit_code, exit_code) << plain.errors;
  EXPECT_EQ(plain.output, "");
  EXPECT_TRUE(plain.errors.starts_with("error: ")) << plain.errors;
  EXPECT_TRUE(contains(plain.errors, what)) << plain.errors;

  std::vector<std::string> with_json = arguments;
  with_json.push_back("--json");
  const SutureRun run = run_suture(with_json, input);
  EXPECT_EQ(run.exit_code, exit_code) << run.errors;
  const auto json = run.json();
  ASSERT_TRUE(json.contains("error")) << run.output;
  EXPECT_EQ(json["error"]["code"], code) << run.output;
  EXPECT_TRUE(contains(
      json["error"]["where"].get<std::string>() + ": " + json["error"]["what"].get<std::string>(),
      what))
      << run.output;
}

TEST(CommandLineTest, HelpAndVersionSucceed) {
  const SutureRun help = run_suture({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_TRUE(contains(help.output, "Exit codes")) << help.output;
  EXPECT_EQ(run_suture({"score", "--help"}).exit_code, 0);
  EXPECT_EQ(run_suture({"--version"}).exit_code, 0);
  EXPECT_TRUE(run_suture({"--version", "--json"}).json().contains("version"));
}

TEST(CommandLineTest, UsageErrorsExitWith2) {
  expect_failure({"frobnicate"}, 2, "invalid_argument", "frobnicate");
  expect_failure({}, 2, "invalid_argument", "no command was given");
  expect_failure({"models", "lst"}, 2, "invalid_argument", "lst");
  EXPECT_TRUE(contains(run_suture({"tokenise"}).errors, "did you mean 'tokenize'?"));
  expect_failure({"score", kLlama}, 2, "invalid_argument", "command line");
  expect_failure({"score", kLlama, "--ids", "-", "--greedy", "-1"}, 2, "invalid_argument",
                 "--greedy");
  expect_failure({"score", kLlama, "--ids", "-", "--kv-dtype", "f8"}, 2, "invalid_argument",
                 "--kv-dtype");
}

TEST(CommandLineTest, BenchSaysWhatItCannotMeasure) {
  expect_failure({"bench", kLlama, "--threads", "0"}, 2, "invalid_argument", "--threads");
  expect_failure({"bench", kLlama, "--threads", "100000"}, 2, "invalid_argument", "--threads");
  expect_failure({"bench", kLlama, "--prompt", "0"}, 2, "invalid_argument", "--prompt");
  expect_failure({"bench", kLlama, "--prompt", "250", "--generate", "7"}, 2, "invalid_argument",
                 "257 tokens, more than the 256");
  expect_failure({"bench", "no-such-model"}, 1, "not_found", "no-such-model");
}

TEST(CommandLineTest, ModelsThatAreNotThereAreNamed) {
  expect_failure({"inspect", "no-such-model"}, 1, "not_found", "no-such-model");
  expect_failure({"tokenize", "/nowhere/x.gguf"}, 1, "not_found", "/nowhere/x.gguf");
  expect_failure({"models", "pull", "qwen"}, 1, "not_found", "qwen");
}

TEST(CommandLineTest, DamagedModelFilesAreRefused) {
  const TestFolder folder;
  const auto empty = folder.write("empty.gguf", "");
  const auto text = folder.write("text.gguf", "This is no model at all, only a line of text.");
  // A GGUF 3 header that promises more tensors than the file could hold.
  const auto cut = folder.write("cut.gguf", std::string("GGUF\3\0\0\0\xFF\0\0\0\0\0\0\0\xFF\0\0\0"
                                                        "\0\0\0\0",
                                                        24));
  for (const auto& path : {empty, text, cut})
    for (const char* command : {"inspect", "tokenize"})
      expect_failure({command, path.string()}, 1, "corrupt", path.string());
  std::filesystem::create_directories(folder.path() / "no-checkpoint");
  EXPECT_EQ(run_suture({"inspect", (folder.path() / "no-checkpoint").string()}).exit_code, 1);
}

TEST(CommandLineTest, BadTokenIdsExitWith2) {
  expect_failure({"score", kLlama, "--ids", "-"}, 2, "invalid_argument", "holds no ids");
  expect_failure({"score", kLlama, "--ids", "-"}, 2, "invalid_argument", "id 256 (entry 1)",
                 "1 256");
  expect_failure({"dump", kLlama, "--ids", "-", "--out", "/dev/null"}, 2, "invalid_argument",
                 "entry 0 is not an id: 'one'", "one");
  expect_failure({"score", kLlama, "--ids", "/nowhere/ids"}, 1, "not_found", "/nowhere/ids");
}

TEST(CommandLineTest, BadTopologiesAreRefusedWithTheirLine) {
  const TestFolder folder;
  const auto topology = folder.write("t.toml",
                                     "[[model]]\nname = \"m\"\nrole = \"master\"\npath = \"x\"\n"
                                     "thread = 2\n");
  for (const char* command : {"check", "run", "launch"}) {
    std::vector<std::string> arguments = {command, topology.string()};
    if (arguments[0] == "run") arguments.insert(arguments.end(), {"-p", "hello"});
    expect_failure(arguments, 3, "invalid_argument", "t.toml:5: model[0].thread: unknown key");
  }
  expect_failure({"check", (folder.path() / "none.toml").string()}, 3, "not_found", "none.toml");
  const auto planned =
      folder.write("p.toml",
                   "gpu_sharing = \"mps\"\n[[model]]\nname = \"m\"\nrole = \"master\"\n"
                   "path = \"x\"\n");
  expect_failure({"check", planned.string()}, 3, "unsupported", "gpu_sharing");
}

TEST(CommandLineTest, JsonIsOneValueOnOneLine) {
  const TestFolder folder;
  const std::vector<std::string> cache = {"SUTURE_MODELS=" + folder.path().string()};
  const auto models = run_suture({"models", "list", "--json"}, {}, cache).json();
  ASSERT_EQ(models["models"].size(), 4u);
  EXPECT_EQ(models["models"][0]["pulled"], false);
  EXPECT_EQ(run_suture({"--json", "doctor"}, {}, cache).json()["checks"].size(), 9u);
  const auto inspected = run_suture({"inspect", kLlama, "--json", "--tensors"}).json();
  EXPECT_EQ(inspected["config"]["layers"], 3);
  EXPECT_EQ(inspected["runnable"], true);
  EXPECT_FALSE(inspected["tensors"].empty());
}

TEST(CommandLineTest, VerifyFindsADamagedModel) {
  const TestFolder folder;
  folder.write("smollm2-135m-instruct.gguf", "damaged");
  const SutureRun run = run_suture({"models", "verify", "smollm2-135m-instruct", "--json"}, {},
                                   {"SUTURE_MODELS=" + folder.path().string()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.json()["models"][0]["ok"], false);
  EXPECT_TRUE(contains(run.errors, "sha256")) << run.errors;
}

TEST(CommandLineTest, AResultThatCannotBeWrittenIsAnError) {
  const std::string full = std::string(SUTURE_BINARY) + " models list > /dev/full";
  EXPECT_EQ(WEXITSTATUS(std::system((full + " 2> /dev/null").c_str())), 1);
}

TEST(CommandLineTest, AReaderThatHasSeenEnoughIsNoReasonForAMessage) {
  const TestFolder folder;
  const std::string said = (folder.path() / "said").string();
  const std::string command = "(" SUTURE_BINARY " models list 2> " + said + ") | true";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(std::filesystem::file_size(said), 0u);
}

}  // namespace
}  // namespace suture
