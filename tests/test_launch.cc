#include "tests/test_launch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "launcher/manifest.h"

extern char** environ;

namespace suture {

RunningLaunch::RunningLaunch(const std::filesystem::path& topology, const std::string& name) {
  std::array<int, 2> pipe_ends{};
  EXPECT_EQ(::pipe2(pipe_ends.data(), O_CLOEXEC), 0);
  UniqueFd read_end(pipe_ends[0]);
  UniqueFd write_end(pipe_ends[1]);
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
  write_end.reset();  // so that the end of the process ends the line
  std::string line;
  for (char c = 0; ::read(read_end.get(), &c, 1) == 1 && c != '\n';) line.push_back(c);
  output_ = std::move(read_end);
  ready_ = nlohmann::json::parse(line, nullptr, false);
  EXPECT_TRUE(ready_.is_object() && ready_.contains("pids")) << line;
  if (ready_.is_object() && ready_.contains("pids"))
    workers_ = ready_.at("pids").get<std::vector<pid_t>>();
}

RunningLaunch::~RunningLaunch() {
  if (pid_ > 0) end(SIGKILL);
}

int RunningLaunch::end(int signal_number) {
  ::kill(pid_, signal_number);
  return wait();
}

int RunningLaunch::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

const std::string kBoatsTopology = R"([bus]
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
)";

void LaunchCommandTest::SetUp() {
  constexpr const char* kModel = "smollm2-135m-instruct";
  const auto model = cached_model_path(*find_model(kModel), model_cache_folder());
  if (!std::filesystem::exists(model))
    GTEST_SKIP() << model << " is not there: suture models pull " << kModel;
  ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
  ::signal(SIGHUP, SIG_DFL);  // launches inherit it, and whoever runs the tests may ignore it
  folder_.write("log.txt", "The ferry Aurelia carried 212 passengers and a crew of nine.");
  topology_ = folder_.write("boats.toml", kBoatsTopology);
}

}  // namespace suture
