// `suture top` beside a launch that works.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <future>
#include <sstream>
#include <string>

#include "tests/test_launch.h"
#include "tests/test_processes.h"
#include "tests/test_suture.h"

namespace suture {
namespace {

class TopRealTest : public LaunchCommandTest {
 protected:
  static SutureRun ask() {
    return run_suture({"run", "--attach", "boats", "-p", "How many?", "-n", "24", "--json"});
  }
};

TEST_F(TopRealTest, ShowsContextsKvAndMemoryOfALaunch) {
  const RunningLaunch launch(topology_, "boats");
  ASSERT_EQ(ask().exit_code, 0);
  const SutureRun top = run_suture({"top", "-n", "1", "--interval", "0.05", "--json"});
  ASSERT_EQ(top.exit_code, 0) << top.errors;
  const nlohmann::json json = top.json();
  EXPECT_EQ(json.at("launch"), "boats");
  ASSERT_EQ(json.at("processes").size(), 2u);
  const nlohmann::json& master = json.at("processes")[0];
  const nlohmann::json& reader = json.at("processes")[1];
  EXPECT_EQ(master.at("state"), "idle");
  EXPECT_EQ(master.at("pid"), launch.workers()[0]);
  EXPECT_GT(reader.at("kv_blocks_used"), 0);
  EXPECT_EQ(reader.at("kv_blocks"), 32);  // 2 sequences of 512 tokens, 32 a block
  EXPECT_GT(reader.at("resident_bytes"), 50'000'000) << "the model is paged in";
  EXPECT_EQ(reader.at("reserved_bytes").get<uint64_t>(),
            reader.at("allocated_bytes").get<uint64_t>() /
                reader.at("kv_blocks_used").get<uint64_t>() * 32);
  // Nothing but the contexts is left when no request runs.
  ASSERT_EQ(json.at("requests").size(), 1u);
  EXPECT_EQ(json.at("requests")[0].at("request"), 0);
  EXPECT_TRUE(json.at("warnings").empty()) << json.dump();
}

TEST_F(TopRealTest, SeesARequestRun) {
  const RunningLaunch launch(topology_, "boats");
  auto asking = std::async(std::launch::async, [] {
    return run_suture(
        {"run", "--attach", "boats", "-p", "Tell a long story of the sea.", "-n", "200", "--json"});
  });
  // Looks until it has seen the answer being generated; the answer takes seconds.
  bool generating = false;
  while (!generating) {
    const SutureRun top = run_suture({"top", "boats", "-n", "1", "--interval", "0.05", "--json"});
    ASSERT_EQ(top.exit_code, 0) << top.errors;
    const nlohmann::json json = top.json();
    const nlohmann::json& master = json.at("processes")[0];
    const bool works = master.at("state") == "generating" &&
                       master.at("generated_tokens_per_second").get<double>() > 0;
    if (works) {
      generating = true;
      EXPECT_EQ(json.at("requests_running"), 1);
      ASSERT_EQ(json.at("requests").size(), 2u) << json.dump();
      EXPECT_GT(json.at("requests")[1].at("kv_bytes"), 0);
      EXPECT_GT(json.at("processes")[1].at("kv_blocks_leased"), 0);
    }
    if (asking.wait_for(std::chrono::seconds(0)) == std::future_status::ready) break;
  }
  EXPECT_TRUE(generating) << "the answer was complete before it was seen";
  const SutureRun answered = asking.get();
  ASSERT_EQ(answered.exit_code, 0) << answered.errors;
}

TEST_F(TopRealTest, ALostProcessIsShownWithTheReason) {
  folder_.write("boats.toml", "restarts = 0\n" + kBoatsTopology);
  const RunningLaunch launch(topology_, "boats");
  ::kill(launch.workers()[1], SIGKILL);
  nlohmann::json reader;
  while (reader.is_null() || reader.at("state") != "lost") {
    const SutureRun top = run_suture({"top", "boats", "-n", "1", "--interval", "0.05", "--json"});
    ASSERT_EQ(top.exit_code, 0) << top.errors;
    reader = top.json().at("processes")[1];
  }
  EXPECT_NE(reader.at("why").get<std::string>().find("signal 9"), std::string::npos);
}

TEST_F(TopRealTest, OneLineASample) {
  const RunningLaunch launch(topology_, "boats");
  const SutureRun top = run_suture({"top", "boats", "-n", "3", "--interval", "0.05", "--json"});
  ASSERT_EQ(top.exit_code, 0) << top.errors;
  std::istringstream lines(top.output);
  int samples = 0;
  for (std::string line; std::getline(lines, line); ++samples)
    EXPECT_TRUE(nlohmann::json::parse(line, nullptr, false).is_object()) << line;
  EXPECT_EQ(samples, 3);
  // Without a terminal the table is printed once.
  const SutureRun table = run_suture({"top", "boats", "--interval", "0.05"});
  EXPECT_EQ(table.exit_code, 0) << table.errors;
  EXPECT_NE(table.output.find("reader"), std::string::npos) << table.output;
  EXPECT_EQ(table.output.find('\033'), std::string::npos) << "no escape sequences in a pipe";
}

TEST_F(TopRealTest, NoLaunchIsSaidWithARemedy) {
  const SutureRun any = run_suture({"top", "--json"});
  EXPECT_EQ(any.exit_code, 1);
  EXPECT_EQ(any.json().at("error").at("code"), "not_found");
  const SutureRun named = run_suture({"top", "nobody", "--json"});
  EXPECT_EQ(named.json().at("error").at("code"), "not_found");
  EXPECT_NE(named.errors.find("suture launch"), std::string::npos) << named.errors;
}

}  // namespace
}  // namespace suture
