// For tests between real processes: a test program starts itself again to play another part.
//
//   SUTURE_TEST_CHILD(echo) { parent.say(parent.hear()); return 0; }
//   ...
//   ChildProcess child("echo");
//   child.say("hello");
//   EXPECT_EQ(child.hear(), "hello");
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bus/fd_channel.h"

namespace suture {

// One end of the conversation between a test and a process of its own. A test that waits in vain
// fails after a generous bound.
class ChildLink {
 public:
  explicit ChildLink(UniqueFd socket) : channel_(std::move(socket)) {}

  void say(const std::string& text, std::span<const int> fds = {}) const;
  // What the other side said next; "" once it is gone.
  std::string hear() const;
  std::vector<UniqueFd> hear_fds() const;

 private:
  FdMessage next() const;

  FdChannel channel_;
};

// A process that runs one SUTURE_TEST_CHILD. Killed, if it still runs, when this object goes.
class ChildProcess : public ChildLink {
 public:
  explicit ChildProcess(const std::string& entry, std::vector<std::string> arguments = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Waits for its end: the exit status, or minus the signal that ended it.
  int wait();

 private:
  struct Started {
    UniqueFd socket;
    pid_t pid = -1;
  };
  explicit ChildProcess(Started started);
  static Started start(const std::string& entry, std::vector<std::string> arguments);

  pid_t pid_ = -1;
  std::optional<int> status_;
};

using ChildMain = int (*)(const ChildLink& parent, std::span<char* const> arguments);

struct ChildEntry {
  ChildEntry(const char* name, ChildMain main);
};

// The exit status if this process was started as a child; called by main() before anything else.
std::optional<int> run_as_child(int argc, char** argv);

}  // namespace suture

#define SUTURE_TEST_CHILD(name)                                                     \
  int child_##name(const ::suture::ChildLink& parent, std::span<char* const> args); \
  const ::suture::ChildEntry child_entry_##name(#name, &child_##name);              \
  int child_##name([[maybe_unused]] const ::suture::ChildLink& parent,              \
                   [[maybe_unused]] std::span<char* const> args)
