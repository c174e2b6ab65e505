#include "actors/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace suture {
namespace {

// A shell script in place of the worker program.
class Script {
 public:
  explicit Script(const std::string& body) {
    std::string name = (std::filesystem::temp_directory_path() / "suture-worker-XXXXXX").string();
    const UniqueFd fd(::mkstemp(name.data()));
    path_ = name;
    const std::string text = "#!/bin/sh\n" + body;
    EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::fchmod(fd.get(), 0700);
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  ~Script() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

WorkerTicket ticket(const std::string& name) {
  WorkerTicket ticket;
  ticket.secret = "s3cret";
  ticket.load.name = name;
  return ticket;
}

// Waits until the process has ended; it stays to be reaped.
void wait_for_end(pid_t pid) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd poll_fd{pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&poll_fd, 1, 60'000), 1);
}

// Runs the script as a worker; what it exits with.
std::string run(const std::string& body) {
  const Script script(body);
  const TlsIdentity identity = TlsIdentity::create().value();
  Supervisor supervisor(script.path());
  EXPECT_TRUE(supervisor.start(ticket("a"), identity));
  wait_for_end(supervisor.pids().at(0));
  return supervisor.reap("a");
}

TEST(SupervisorTest, TheWorkerFindsItsTicketAndIdentity) {
  EXPECT_EQ(run("test \"$1 $2 $3\" = 'worker --ticket 3' || exit 10\n"
                "grep -q s3cret /proc/$$/fd/3 || exit 11\n"
                "grep -q 'BEGIN CERTIFICATE' /proc/$$/fd/4 || exit 12\n"
                "grep -q 'PRIVATE KEY' /proc/$$/fd/5 || exit 13\n"),
            "exit status 0");
}

TEST(SupervisorTest, NothingElseIsInherited) {
  const UniqueFd open_file(::fcntl(0, F_DUPFD, 40));  // not marked close-on-exec
  ASSERT_GE(open_file.get(), 40);
  EXPECT_EQ(run("for fd in /proc/$$/fd/*; do n=${fd##*/}\n"
                "  [ $n -le 5 ] || [ \"$(readlink $fd)\" = \"$0\" ] || [ ! -e $fd ] || exit 20\n"
                "done"),
            "exit status 0");
}

TEST(SupervisorTest, WorkersHaveAProcessGroupOfTheirOwn) {
  EXPECT_EQ(run("read -r pid name state parent group rest < /proc/$$/stat\n"
                "test \"$group\" = $$ || exit 30"),
            "exit status 0");
}

TEST(SupervisorTest, SaysHowAProcessEnded) {
  EXPECT_EQ(run("exit 7"), "exit status 7");
  EXPECT_EQ(run("kill -KILL $$"), "killed by signal 9 (Killed)");
}

TEST(SupervisorTest, KillsWhatIsLeftWhenItGoes) {
  const Script script("exec sleep 1000");
  const TlsIdentity identity = TlsIdentity::create().value();
  pid_t pid = 0;
  {
    Supervisor supervisor(script.path());
    ASSERT_TRUE(supervisor.start(ticket("a"), identity));
    pid = supervisor.pids().at(0);
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);  // reaped, too
}

TEST(SupervisorTest, AProgramThatIsNotThereIsAnError) {
  const TlsIdentity identity = TlsIdentity::create().value();
  Supervisor supervisor("/no/such/program");
  const Status status = supervisor.start(ticket("a"), identity);
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().what.find("/no/such/program"), std::string::npos);
  EXPECT_EQ(supervisor.reap("a"), "gone");
}

}  // namespace
}  // namespace suture
