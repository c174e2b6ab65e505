// `suture launch` and `suture run --attach` as two users' terminals see them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/manifest.h"
#include "base/test_folder.h"
#include "tests/test_processes.h"
#include "tests/test_suture.h"

extern char** environ;

namespace suture {
namespace {

constexpr const char* kModel = "smollm2-135m-instruct";

// A running `suture launch --json`.
class RunningLaunch {
 public:
  // Waits until it says that it is ready.
  RunningLaunch(const std::filesystem::path& topology, const std::string& name) {
    std::array<int, 2> pipe_ends{};
    EXPECT_EQ(::pipe2(pipe_ends.data(), O_CLOEXEC), 0);
    UniqueFd read_end(pipe_ends[0]);
    const UniqueFd write_end(pipe_ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
    std::vector<std::string> arguments = {SUTURE_BINARY, "launch", topology.string(),
                                          "--name",      name,     "--json"};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, SUTURE_BINARY, &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    read_ready_line(read_end.get());
    output_ = std::move(read_end);
  }
  ~RunningLaunch() {
    if (pid_ > 0) end(SIGKILL);
  }
  RunningLaunch(const RunningLaunch&) = delete;
  RunningLaunch& operator=(const RunningLaunch&) = delete;

  const std::vector<pid_t>& workers() const { return workers_; }

  // Sends the signal and returns the exit status as a shell would show it.
  int end(int signal_number) {
    ::kill(pid_, signal_number);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  void read_ready_line(int fd) {
    std::string line;
    for (char c = 0; ::read(fd, &c, 1) == 1 && c != '\n';) line.push_back(c);
    const auto json = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line;
    workers_ = json.at("pids").get<std::vector<pid_t>>();
  }

  pid_t pid_ = 0;
  UniqueFd output_;
  std::vector<pid_t> workers_;
};

class AttachRealTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto model = cached_model_path(*find_model(kModel), model_cache_folder());
    if (!std::filesystem::exists(model))
      GTEST_SKIP() << model << " is not there: suture models pull " << kModel;
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
    folder_.write("log.txt", "The ferry Aurelia carried 212 passengers and a crew of nine.");
    topology_ = folder_.write("boats.toml", R"([bus]
max_seq_len = 512
max_sequences = 2
[[model]]
name = "master"
role = "master"
path = "smollm2-135m-instruct"
[[model]]
name = "reader"
role = "slave"
path = "smollm2-135m-instruct"
documents = ["log.txt"]
fusion = { mode = "concat", position = "prefix" }
)");
  }

  static SutureRun ask(const std::string& name) {
    return run_suture({"run", "--attach", name, "-p", "How many passengers?", "-n", "8", "--json"});
  }

  TestFolder folder_;
  std::filesystem::path topology_;
};

TEST_F(AttachRealTest, AnswersAreTheSameAsThoseOfRun) {
  RunningLaunch launch(topology_, "boats");
  ASSERT_EQ(launch.workers().size(), 2u);
  const SutureRun attached = ask("boats");
  ASSERT_EQ(attached.exit_code, 0) << attached.errors;
  const SutureRun again = ask("boats");
  const SutureRun direct =
      run_suture({"run", topology_.string(), "-p", "How many passengers?", "-n", "8", "--json"});
  ASSERT_EQ(direct.exit_code, 0) << direct.errors;
  const auto ids = direct.json()["answers"][0]["token_ids"];
  EXPECT_EQ(attached.json()["answers"][0]["token_ids"], ids);
  EXPECT_EQ(again.json()["answers"][0]["token_ids"], ids);
  EXPECT_EQ(launch.end(SIGTERM), 0);
  for (const pid_t pid : launch.workers()) EXPECT_TRUE(process_ends(pid));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "suture"));
}

TEST_F(AttachRealTest, ANameThatLivesIsRefused) {
  const RunningLaunch launch(topology_, "boats");
  const SutureRun second = run_suture({"launch", topology_.string(), "--json"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_EQ(second.json()["error"]["code"], "busy");
  EXPECT_EQ(ask("boats").exit_code, 0);
}

TEST_F(AttachRealTest, AKilledLauncherLeavesNoProcessAndItsNameIsFree) {
  RunningLaunch launch(topology_, "boats");
  EXPECT_EQ(launch.end(SIGKILL), 128 + SIGKILL);
  for (const pid_t pid : launch.workers()) EXPECT_TRUE(process_ends(pid));
  EXPECT_EQ(ask("boats").exit_code, 1);
  const RunningLaunch next(topology_, "boats");
  EXPECT_EQ(ask("boats").exit_code, 0);
}

TEST_F(AttachRealTest, NoSuchLaunchIsSaidWithARemedy) {
  const SutureRun run = ask("nobody");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.json()["error"]["code"], "not_found");
  EXPECT_NE(run.errors.find("suture launch"), std::string::npos) << run.errors;
}

}  // namespace
}  // namespace suture
