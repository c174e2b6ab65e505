#include "launcher/eval/sandbox.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "base/test_folder.h"
#include "launcher/eval/answer_reading.h"

namespace suture {
namespace {

constexpr const char* kHumanEval = SUTURE_TEST_DATA_DIR "/../../bench/evals/humaneval.jsonl";

class SandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    auto created = PythonSandbox::create();
    if (!created && created.error().code == ErrorCode::kNotFound)
      GTEST_SKIP() << created.error().message();
    ASSERT_TRUE(created.has_value()) << created.error().message();
    sandbox_ = std::move(created).value();
  }

  static SandboxResult run_in(const PythonSandbox& sandbox, std::string_view program) {
    auto result = sandbox.run(program);
    EXPECT_TRUE(result.has_value()) << result.error().message();
    return result.value_or(SandboxResult());
  }
  SandboxResult run(std::string_view program) const { return run_in(*sandbox_, program); }
  static SandboxResult run(std::string_view program, const SandboxLimits& limits) {
    return run_in(PythonSandbox::create(limits).value(), program);
  }

  // The program ends with an error that names a refusal.
  void expect_refused(std::string_view program) const {
    const SandboxResult result = run(program);
    EXPECT_EQ(result.verdict, SandboxVerdict::kFailed) << program;
    EXPECT_NE(result.reason.find("Operation not permitted"), std::string::npos)
        << program << ": " << result.reason;
  }

  std::optional<PythonSandbox> sandbox_;  // with the default limits
};

TEST_F(SandboxTest, TellsRightFromWrong) {
  const SandboxResult right = run("print('fine')\nassert 1 + 1 == 2");
  EXPECT_EQ(right.verdict, SandboxVerdict::kPassed) << right.reason;
  EXPECT_EQ(right.reason, "");
  EXPECT_EQ(right.output, "fine\n");
  const SandboxResult wrong = run("assert 1 + 1 == 3, 'not so'");
  EXPECT_EQ(wrong.verdict, SandboxVerdict::kFailed);
  EXPECT_EQ(wrong.reason, "AssertionError: not so");
  EXPECT_EQ(run("def broken(:").verdict, SandboxVerdict::kFailed);
  EXPECT_EQ(run("x = '''unfinished").verdict, SandboxVerdict::kFailed);
}

TEST_F(SandboxTest, AnEarlyExitDoesNotPass) {
  for (const char* program : {"raise SystemExit(0)", "import os; os._exit(0)",
                              "import sys; sys.exit()", "import os; os.write(3, b'passed')"})
    EXPECT_EQ(run(program).verdict, SandboxVerdict::kFailed) << program;
  EXPECT_EQ(run("import os; os.abort()").reason.substr(0, 15), "ended by signal");
}

TEST_F(SandboxTest, EndlessLoopsEnd) {
  SandboxLimits limits;
  limits.cpu_seconds = 1;
  limits.wall_seconds = 60;
  const SandboxResult busy = run("while True: pass", limits);
  EXPECT_EQ(busy.verdict, SandboxVerdict::kTimedOut);
  EXPECT_NE(busy.reason.find("processor time"), std::string::npos) << busy.reason;
  // Nor does it help to catch the signal that says so.
  const SandboxResult deaf =
      run("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", limits);
  EXPECT_EQ(deaf.verdict, SandboxVerdict::kTimedOut) << deaf.reason;

  limits.wall_seconds = 1;
  const SandboxResult idle = run("import time; time.sleep(600)", limits);
  EXPECT_EQ(idle.verdict, SandboxVerdict::kTimedOut);
  EXPECT_NE(idle.reason.find("ran longer"), std::string::npos) << idle.reason;
  const SandboxResult silent =
      run("import os, time\nos.close(1); os.close(2)\ntime.sleep(600)", limits);
  EXPECT_EQ(silent.verdict, SandboxVerdict::kTimedOut) << silent.reason;
}

TEST_F(SandboxTest, MemoryIsBounded) {
  const SandboxResult result = run("x = bytearray(4 << 30)");
  EXPECT_EQ(result.verdict, SandboxVerdict::kOutOfMemory) << result.reason;
  const SandboxResult growing = run("x = []\nwhile True: x.append(bytearray(1 << 20))");
  EXPECT_EQ(growing.verdict, SandboxVerdict::kOutOfMemory) << growing.reason;
  EXPECT_EQ(run("import resource as r\nr.setrlimit(r.RLIMIT_AS, (-1, -1))").verdict,
            SandboxVerdict::kFailed);
}

TEST_F(SandboxTest, OutputIsBounded) {
  const SandboxResult result = run("while True: print('x' * 1000)");
  EXPECT_EQ(result.verdict, SandboxVerdict::kFailed);
  EXPECT_NE(result.reason.find("printed more than"), std::string::npos) << result.reason;
  EXPECT_LE(result.output.size(), SandboxLimits().output_bytes);
  const SandboxResult binary =
      run("import os\nos.write(1, b'a\\xff\\xe4\\xb8')\nraise ValueError('\\udc80')");
  EXPECT_EQ(binary.output.substr(0, 4), "a\xEF\xBF\xBD") << binary.output;
}

TEST_F(SandboxTest, NoNetwork) {
  for (const char* family : {"AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"})
    expect_refused(std::string("import socket; socket.socket(socket.") + family + ")");
  expect_refused("import socket; socket.socketpair()");
  EXPECT_EQ(run("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9')").verdict,
            SandboxVerdict::kFailed);
}

TEST_F(SandboxTest, NoProcessesAndNoSignalsToOthers) {
  expect_refused("import os\nwhile True: os.fork()");
  expect_refused("import os; os.posix_spawn('/bin/true', ['true'], {})");
  expect_refused("import subprocess; subprocess.run(['/bin/true'])");
  expect_refused("import os; os.kill(os.getppid(), 9)");
  expect_refused("import os; os.killpg(0, 9)");
  expect_refused("import os; os.setsid()");
  const SandboxResult threads =
      run("import threading\nt = threading.Thread(target=print, args=('hello',))\n"
          "t.start(); t.join()");
  EXPECT_EQ(threads.verdict, SandboxVerdict::kPassed) << threads.reason;
}

TEST_F(SandboxTest, NoChangeToAnyFile) {
  const TestFolder folder;
  const std::filesystem::path file = folder.write("kept", "content");
  const std::string path = file.string();
  for (const char* action :
       {"open(p, 'w')", "open(p, 'a')", "open(p, 'r+')", "open(p + '2', 'x')",
        "os.open(os.path.dirname(p), os.O_TMPFILE | os.O_RDWR)", "os.unlink(p)",
        "os.rename(p, p + '2')", "os.link(p, p + '2')", "os.symlink(p, p + '2')",
        "os.mkdir(p + '2')", "os.mkfifo(p + '2')", "os.rmdir(os.path.dirname(p))", "os.chmod(p, 0)",
        "os.chown(p, 0, 0)", "os.truncate(p, 0)", "os.utime(p)", "os.setxattr(p, 'user.x', b'1')",
        "os.fchmod(os.open(p, os.O_RDONLY), 0)", "os.memfd_create('x')"})
    expect_refused(std::string("import os; p = '") + path + "'; " + action);
  std::ifstream kept(file);
  std::string content;
  kept >> content;
  EXPECT_EQ(content, "content");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST_F(SandboxTest, NothingOfTheParentIsHandedDown) {
  const TestFolder folder;
  const std::ifstream secret(folder.write("secret", "content"));  // without close-on-exec
  const SandboxResult result =
      run("import os\n"
          "assert not [fd for fd in range(5, 1000) if os.path.exists(f'/proc/self/fd/{fd}')]\n"
          "assert 'HOME' not in os.environ\n"
          "assert os.getcwd() == '/'\n"
          "assert not os.read(0, 1)");
  EXPECT_EQ(result.verdict, SandboxVerdict::kPassed) << result.reason;
}

TEST_F(SandboxTest, CanonicalSolutionsOfHumanEvalPass) {
  const auto set = load_eval_set(kHumanEval);
  ASSERT_TRUE(set.has_value()) << set.error().message();
  const auto sandbox = PythonSandbox::create({.wall_seconds = 60, .cpu_seconds = 60});
  ASSERT_TRUE(sandbox.has_value()) << sandbox.error().message();
  for (const EvalItem& item : set->items) {
    const auto& code = std::get<CodeItem>(item.task);
    const auto right = sandbox->run(code_program(code, code.canonical_solution));
    ASSERT_TRUE(right.has_value()) << right.error().message();
    EXPECT_EQ(right->verdict, SandboxVerdict::kPassed) << item.id << ": " << right->reason;
  }
  const auto& first = std::get<CodeItem>(set->items[0].task);
  const auto wrong = sandbox->run(code_program(first, "    return None\n"));
  ASSERT_TRUE(wrong.has_value()) << wrong.error().message();
  EXPECT_EQ(wrong->verdict, SandboxVerdict::kFailed);
}

TEST(SandboxCreateTest, LimitsMustBeAboveZero) {
  EXPECT_FALSE(PythonSandbox::create({.wall_seconds = 0}).has_value());
  EXPECT_FALSE(PythonSandbox::create({.cpu_seconds = 0}).has_value());
  EXPECT_FALSE(PythonSandbox::create({.memory_bytes = 0}).has_value());
}

}  // namespace
}  // namespace suture
