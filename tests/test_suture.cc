#include "tests/test_suture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/check.h"
#include "base/unique_fd.h"

extern char** environ;

namespace suture {
namespace {

// Files without a name: a child may write as much as it likes without anybody reading.
UniqueFd memory_file(const std::string& content = {}) {
  UniqueFd fd(::memfd_create("suture-test", MFD_CLOEXEC));
  SUTURE_CHECK(fd.valid(), "memfd_create");
  const ssize_t written = ::pwrite(fd.get(), content.data(), content.size(), 0);
  SUTURE_CHECK(written == static_cast<ssize_t>(content.size()), "{} bytes written", written);
  return fd;
}

std::string content_of(int fd) {
  std::string content;
  std::array<char, 65536> buffer{};
  for (ssize_t got = 0;
       (got = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(content.size()))) > 0;)
    content.append(buffer.data(), static_cast<size_t>(got));
  return content;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// This process's variables, those named in `changes` replaced.
std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> entries = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& change : changes) replaced = replaced || change.starts_with(name);
    if (!replaced) entries.push_back(text);
  }
  return entries;
}

}  // namespace

nlohmann::json SutureRun::json() const {
  auto value = nlohmann::json::parse(output, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(value.is_discarded()) << "no JSON: " << output << errors;
  EXPECT_EQ(output.find('\n'), output.size() - 1) << "more than one line: " << output;
  return value;
}

SutureRun run_suture(const std::vector<std::string>& arguments, const std::string& input,
                     const std::vector<std::string>& environment) {
  std::vector<std::string> words = {SUTURE_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<std::string> variables = environment_with(environment);
  const UniqueFd in = memory_file(input);
  const UniqueFd out = memory_file();
  const UniqueFd err = memory_file();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.get(), STDERR_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, SUTURE_BINARY, &actions, nullptr, pointers_to(words).data(),
                                  pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  SUTURE_CHECK(error == 0, "cannot start {}: error {}", SUTURE_BINARY, error);
  int status = 0;
  SUTURE_CHECK(::waitpid(pid, &status, 0) == pid, "waitpid");
  SutureRun run;
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.output = content_of(out.get());
  run.errors = content_of(err.get());
  return run;
}

}  // namespace suture
