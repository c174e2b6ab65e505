#include "launcher/top_table.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

ProcessSnapshot process(const std::string& name) {
  ProcessSnapshot process;
  process.name = name;
  process.device = "cpu";
  process.state = ProcessState::kIdle;
  process.slab.blocks = 8;
  process.slab.block_bytes = 1'000'000;
  process.slab.payload_bytes = 8'000'000;
  process.slab.heartbeats = 1;
  return process;
}

LaunchSnapshot at(int64_t seconds) {
  return {.time_ns = seconds * kSecond,
          .started_ns = 0,
          .requests = 0,
          .processes = {process("master"), process("doc")}};
}

TEST(TopTableTest, RatesAreWhatHappenedBetweenTwoLooks) {
  const LaunchSnapshot before = at(10);
  LaunchSnapshot now = at(12);
  SlabFigures& slab = now.processes[0].slab;
  slab.tokens_computed = 130;  // 30 of them one by one
  slab.tokens_generated = 30;
  slab.waits = 4;
  slab.wait_ns = kSecond / 4;
  const TopFigures figures = top_figures("x", before, now);
  EXPECT_DOUBLE_EQ(figures.rates[0].read_per_second, 50);
  EXPECT_DOUBLE_EQ(figures.rates[0].generated_per_second, 15);
  EXPECT_EQ(figures.rates[0].waits, 4);
  EXPECT_DOUBLE_EQ(figures.rates[0].wait_seconds, 0.25);
  EXPECT_DOUBLE_EQ(figures.rates[1].read_per_second, 0);
}

TEST(TopTableTest, AProcessThatWasReplacedOrIsNewHasNoNegativeRates) {
  LaunchSnapshot before = at(10);
  before.processes[0].slab.tokens_computed = 1000;
  before.processes.pop_back();
  LaunchSnapshot now = at(11);
  now.processes[0].slab.tokens_computed = 20;
  now.processes[1].slab.tokens_computed = 500;
  const TopFigures figures = top_figures("x", before, now);
  EXPECT_DOUBLE_EQ(figures.rates[0].read_per_second, 20);
  EXPECT_DOUBLE_EQ(figures.rates[1].read_per_second, 0);
}

TEST(TopTableTest, KvIsAddedUpForEachRequestOverAllProcesses) {
  LaunchSnapshot now = at(1);
  now.processes[0].slab.streams = {{.request = 0, .tokens = 40, .blocks = 2},
                                   {.slot = 1, .request = 3, .tokens = 64, .blocks = 3}};
  now.processes[1].slab.streams = {{.request = 3, .tokens = 32, .blocks = 1}};
  const TopFigures figures = top_figures("x", at(0), now);
  ASSERT_EQ(figures.requests.size(), 2u);
  EXPECT_EQ(figures.requests[0].request, 0u);
  EXPECT_EQ(figures.requests[0].bytes, 2'000'000u);
  EXPECT_EQ(figures.requests[1].tokens, 96);
  EXPECT_EQ(figures.requests[1].bytes, 4'000'000u);
  ASSERT_EQ(figures.requests[1].by_process.size(), 2u);
  EXPECT_EQ(figures.requests[1].by_process[1].first, "doc");
  EXPECT_EQ(figures.requests[1].by_process[1].second, 1'000'000u);
}

TEST(TopTableTest, WarnsOfWhatIsLostFullSilentOrReservedInVain) {
  LaunchSnapshot before = at(0);
  LaunchSnapshot now = at(3);
  for (ProcessSnapshot& p : now.processes) p.slab.heartbeats = 9;
  EXPECT_TRUE(top_figures("x", before, now).warnings.empty());

  now.processes[0].slab.blocks_used = 8;
  now.processes[1].state = ProcessState::kLost;
  now.processes[1].why = "killed by signal 9";
  const auto warnings = top_figures("x", before, now).warnings;
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("8 of 8 K/V blocks"), std::string::npos);
  EXPECT_NE(warnings[1].find("killed by signal 9"), std::string::npos);

  const LaunchSnapshot silent = at(3);  // no heartbeat in three seconds
  EXPECT_EQ(top_figures("x", before, silent).warnings.size(), 2u);
  EXPECT_TRUE(top_figures("x", at(2), silent).warnings.empty()) << "one second says nothing yet";

  EXPECT_TRUE(reserves_too_much("cuda:0", 201, 100));
  EXPECT_FALSE(reserves_too_much("cuda:0", 200, 100));
  EXPECT_FALSE(reserves_too_much("cpu", 1000, 0));
}

TEST(TopTableTest, TableAndJsonShowTheSame) {
  LaunchSnapshot now = at(3725);
  now.requests = 3;
  now.waiting = 2;
  now.processes[0].state = ProcessState::kGenerating;
  now.processes[0].slab.blocks_used = 5;
  now.processes[0].slab.blocks_leased = 2;
  now.processes[0].slab.streams = {
      {.request = 7, .state = StreamState::kOpen, .tokens = 64, .blocks = 5}};
  for (ProcessSnapshot& p : now.processes) p.slab.heartbeats = 9;
  const TopFigures figures = top_figures("boats", at(3724), now);
  const std::string table = top_table(figures);
  for (const char* word : {"boats", "up 1:02:05", "1 running, 2 waiting", "generating", "5/2/8",
                           "5.0", "8.0", "master 5.0"})
    EXPECT_NE(table.find(word), std::string::npos) << word << " in\n" << table;
  const nlohmann::json json = to_json(figures);
  EXPECT_EQ(json.at("requests_waiting"), 2);
  EXPECT_EQ(json.at("processes")[0].at("kv_blocks_leased"), 2);
  EXPECT_EQ(json.at("processes")[0].at("allocated_bytes"), 5'000'000);
  EXPECT_EQ(json.at("processes")[0].at("sequences"), 1);
  EXPECT_EQ(json.at("requests")[0].at("kv_bytes_by_process").at("master"), 5'000'000);
}

}  // namespace
}  // namespace suture
