#include "actors/membership.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace suture {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr pid_t kMaster = 1001;
constexpr pid_t kSlave = 1002;

Membership::Clock::time_point at(milliseconds since) {
  return Membership::Clock::time_point(since);
}

// Two processes; the test says what each witness saw.
class MembershipTest : public testing::Test {
 protected:
  void SetUp() override { incarnation_ = {{"m", members_.begin("m")}, {"s", members_.begin("s")}}; }

  bool join(const std::string& name, milliseconds when = seconds(1)) {
    Joined joined;
    joined.name = name;
    joined.incarnation = incarnation_.at(name);
    return members_.joined(joined, at(when));
  }
  void join_both() {
    members_.connected(PeerId{1}, kMaster);
    members_.connected(PeerId{2}, kSlave);
    EXPECT_TRUE(join("m"));
    EXPECT_FALSE(members_.complete());
    EXPECT_TRUE(join("s"));
    EXPECT_TRUE(members_.complete());
  }
  std::optional<ProcessEnd> off_bus(uint64_t peer, const std::string& name,
                                    PeerEnd end = PeerEnd::kExited) {
    return members_.disconnected(PeerId{peer}, name, end, "detail", at(seconds(2)));
  }
  std::optional<ProcessEnd> exit(const std::string& name, pid_t pid) {
    return members_.exited({name, incarnation_.at(name), pid, "killed by signal 9 (Killed)"},
                           at(seconds(2)));
  }

  Membership members_{{"m", "s"}, {.tries = 2, .first_delay = milliseconds(500)}};
  std::map<std::string, uint64_t> incarnation_;
};

TEST_F(MembershipTest, AProcessHasEndedOnceItIsOffTheBusAndReaped) {
  for (const bool bus_first : {true, false}) {
    SetUp();
    join_both();
    const auto first = bus_first ? off_bus(2, "s") : exit("s", kSlave);
    EXPECT_FALSE(first.has_value());
    const auto end = bus_first ? exit("s", kSlave) : off_bus(2, "s");
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->name, "s");
    EXPECT_TRUE(end->restart_in.has_value());
    EXPECT_EQ(end->why, "process exited (killed by signal 9 (Killed))");
    EXPECT_EQ(end->next, "started again in 0.5 s (try 1 of 2)");
    EXPECT_EQ(members_.member("s").why, end->story());
    EXPECT_EQ(members_.member("s").state, MemberState::kRestarting);
    EXPECT_EQ(members_.member("m").state, MemberState::kJoined);
    members_ = Membership({"m", "s"}, {.tries = 2});
  }
}

TEST_F(MembershipTest, TheBrokersReasonIsPartOfTheStory) {
  join_both();
  EXPECT_FALSE(off_bus(2, "s", PeerEnd::kHung).has_value());
  EXPECT_EQ(exit("s", kSlave)->why, "process hung (killed by signal 9 (Killed)): detail");
}

TEST_F(MembershipTest, OneThatWasNeverOnTheBusHasEndedWithItsExit) {
  const auto end = exit("s", kSlave);
  ASSERT_TRUE(end.has_value());
  EXPECT_FALSE(end->restart_in.has_value());  // nobody has seen the launch work
  ASSERT_TRUE(members_.start_failure().has_value());
  EXPECT_EQ(members_.start_failure()->where, "s");
  // Its last words to the broker are read after that, and change nothing.
  members_.connected(PeerId{7}, kSlave);
  EXPECT_FALSE(off_bus(7, "s").has_value());
}

TEST_F(MembershipTest, WhatAnEndedProcessSaidComesTooLate) {
  join_both();
  exit("s", kSlave);
  ASSERT_TRUE(off_bus(2, "s").has_value());
  const uint64_t old = incarnation_["s"];
  incarnation_["s"] = members_.begin("s");
  EXPECT_NE(incarnation_["s"], old);
  Joined late;
  late.name = "s";
  late.incarnation = old;
  EXPECT_FALSE(members_.joined(late, at(seconds(3))));
  EXPECT_TRUE(join("s"));
  EXPECT_EQ(members_.member("s").state, MemberState::kJoined);
}

TEST_F(MembershipTest, ACrashLoopEndsInAClearState) {
  join_both();
  exit("s", kSlave);
  ASSERT_TRUE(off_bus(2, "s")->restart_in.has_value());
  incarnation_["s"] = members_.begin("s");
  ASSERT_TRUE(exit("s", kSlave + 1)->restart_in.has_value());
  incarnation_["s"] = members_.begin("s");
  const auto last = exit("s", kSlave + 2);
  ASSERT_TRUE(last.has_value());
  EXPECT_FALSE(last->restart_in.has_value());
  EXPECT_EQ(members_.member("s").state, MemberState::kGone);
  EXPECT_NE(members_.member("s").why.find("given up after 2 tries"), std::string::npos)
      << members_.member("s").why;
}

TEST_F(MembershipTest, AProcessThatCouldNotLoadSaysWhyThroughItsEnd) {
  join_both();
  exit("s", kSlave);
  off_bus(2, "s");
  incarnation_["s"] = members_.begin("s");
  Joined failed;
  failed.name = "s";
  failed.incarnation = incarnation_["s"];
  failed.outcome = Outcome::of(fail(ErrorCode::kNotFound, "no such file"));
  EXPECT_TRUE(members_.joined(failed, at(seconds(3))));
  EXPECT_NE(members_.member("s").state, MemberState::kJoined);
  const auto end = exit("s", kSlave + 1);
  ASSERT_TRUE(end.has_value());
  EXPECT_NE(end->why.find("could not load: no such file"), std::string::npos) << end->why;
  EXPECT_FALSE(members_.start_failure().has_value());  // the launch has started long ago
}

TEST_F(MembershipTest, APeerOfOurOwnProcessEndsWithItsConnection) {
  members_.connected(PeerId{1}, ::getpid());
  EXPECT_TRUE(off_bus(1, "m").has_value());
}

TEST_F(MembershipTest, StrangersDoNotCount) {
  Joined stranger;
  stranger.name = "x";
  EXPECT_FALSE(members_.joined(stranger, at(seconds(1))));
  members_.connected(PeerId{9}, 77);
  EXPECT_FALSE(off_bus(9, "launcher").has_value());
}

}  // namespace
}  // namespace suture
