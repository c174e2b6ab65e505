#include "actors/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/worker.h"

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

// Who has ended, in the order in which it was said.
class Exits {
 public:
  std::function<void(const WorkerExit&)> note() {
    return [this](const WorkerExit& exit) {
      const std::lock_guard lock(mutex_);
      exits_.push_back(exit);
      said_.notify_all();
    };
  }
  // The next one; a test that waits in vain fails after a minute.
  WorkerExit next() {
    std::unique_lock lock(mutex_);
    const bool said =
        said_.wait_for(lock, std::chrono::minutes(1), [this] { return !exits_.empty(); });
    EXPECT_TRUE(said);
    if (!said) return {};
    WorkerExit exit = exits_.front();
    exits_.pop_front();
    return exit;
  }

 private:
  std::mutex mutex_;
  std::condition_variable said_;
  std::deque<WorkerExit> exits_;
};

const TlsIdentity& identity() {
  static const TlsIdentity made = TlsIdentity::create().value();
  return made;
}

// The process of that name, once it runs.
pid_t running(const Supervisor& supervisor, const std::string& name) {
  while (supervisor.pid_of(name) == 0) std::this_thread::yield();
  return supervisor.pid_of(name);
}

// Runs the script as a worker; what it exits with.
std::string run(const std::string& body) {
  const Script script(body);
  Exits exits;
  Supervisor supervisor(script.path(), identity(), exits.note());
  supervisor.start(ticket("a"));
  return exits.next().how;
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

TEST(SupervisorTest, SaysThatAWorkerHadNoMemoryLeft) {
  EXPECT_EQ(run(fmt::format("exit {}", kExitOutOfMemory)), "out of memory");
}

TEST(SupervisorTest, KillsWhatIsLeftWhenItGoes) {
  const Script script("exec sleep 1000");
  Exits exits;
  pid_t pid = 0;
  {
    Supervisor supervisor(script.path(), identity(), exits.note());
    supervisor.start(ticket("a"));
    pid = running(supervisor, "a");
    EXPECT_EQ(supervisor.pids(), std::vector<pid_t>{pid});
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);  // reaped, too
}

TEST(SupervisorTest, TellsWhichProcessHasEndedAndStartsItAgainWhenAsked) {
  const Script script("exec sleep 1000");
  Exits exits;
  Supervisor supervisor(script.path(), identity(), exits.note());
  WorkerTicket first = ticket("a");
  first.load.incarnation = 1;
  supervisor.start(first);
  const pid_t pid = running(supervisor, "a");
  supervisor.kill("a", 2);  // not this one
  supervisor.kill("a", 1);
  const WorkerExit exit = exits.next();
  EXPECT_EQ(exit.name, "a");
  EXPECT_EQ(exit.incarnation, 1u);
  EXPECT_EQ(exit.pid, pid);
  EXPECT_EQ(exit.how, "killed by signal 9 (Killed)");
  EXPECT_EQ(supervisor.pid_of("a"), 0);

  WorkerTicket second = ticket("a");
  second.load.incarnation = 2;
  supervisor.start(second, std::chrono::milliseconds(20));
  EXPECT_NE(running(supervisor, "a"), 0);
  supervisor.kill("a", 1);
  supervisor.kill("a", 2);
  EXPECT_EQ(exits.next().incarnation, 2u);
}

TEST(SupervisorTest, AProgramThatIsNotThereIsAnEndToo) {
  Exits exits;
  Supervisor supervisor("/no/such/program", identity(), exits.note());
  supervisor.start(ticket("a"));
  const WorkerExit exit = exits.next();
  EXPECT_EQ(exit.pid, 0);
  EXPECT_NE(exit.how.find("/no/such/program"), std::string::npos);
}

// Whatever waits for its turn is not started any more.
TEST(SupervisorTest, AnOrderForLaterDiesWithTheSupervisor) {
  const Script script("exec sleep 1000");
  Exits exits;
  Supervisor supervisor(script.path(), identity(), exits.note());
  supervisor.start(ticket("a"), std::chrono::hours(1));
  EXPECT_EQ(supervisor.pid_of("a"), 0);
}

}  // namespace
}  // namespace suture
