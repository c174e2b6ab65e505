#include "bench/load/report.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

StageReport busy_stage(double seconds) {
  StageReport report;
  report.seconds = seconds;
  report.clients.resize(2);
  for (ClientTally& client : report.clients) {
    client.completed = 10;
    client.completed_tokens = 100;
    client.first_token_seconds = {0.25, 0.5};
  }
  return report;
}

ProcessHistory growing(double bytes_a_minute) {
  ProcessHistory history{"launcher", {}, {}};
  for (int minute = 0; minute < 30; ++minute) {
    history.seconds.push_back(60.0 * minute);
    history.samples.push_back({.heap_bytes = 1e8 + bytes_a_minute * minute, .files = 9});
  }
  return history;
}

TEST(LoadReportTest, AStarvedClientIsAFault) {
  StageReport report = busy_stage(10);
  EXPECT_TRUE(faults_of(report).empty());
  report.clients[1] = {};
  ASSERT_EQ(faults_of(report).size(), 1u);
  EXPECT_NE(faults_of(report)[0].find("client 1"), std::string::npos);
  report.clients[0].completed = 3;  // nobody has got much
  EXPECT_TRUE(faults_of(report).empty());
}

TEST(LoadReportTest, MemoryThatGrowsIsAFaultInLongStages) {
  StageReport report = busy_stage(1800);
  report.processes = {growing(0.5e6)};
  EXPECT_TRUE(faults_of(report).empty());
  report.processes = {growing(2e6)};
  EXPECT_EQ(faults_of(report).size(), 1u);
  report.seconds = 60;
  EXPECT_TRUE(faults_of(report).empty());
}

TEST(LoadReportTest, TableAndJsonHoldTheSums) {
  StageReport report = busy_stage(10);
  report.clients[0].faults = {"client 0: wrong"};
  report.faults = faults_of(report);
  report.processes = {growing(0)};
  const std::string table = stage_table(report);
  for (const char* part : {"2 clients, 10.0 s", " 20 as alone", "20.0 tokens/s", "answers 1.000",
                           "500.0", "launcher", "FAULT client 0: wrong"})
    EXPECT_NE(table.find(part), std::string::npos) << part << table;
  const nlohmann::json json = to_json(report);
  EXPECT_EQ(json["completed"], 20);
  EXPECT_EQ(json["first_token_s"]["p50"], 0.25);
  EXPECT_EQ(json["first_token_s"]["p99"], 0.5);
  EXPECT_EQ(json["processes"][0]["samples"].size(), 30u);
  EXPECT_EQ(json["faults"][0], "client 0: wrong");
}

}  // namespace
}  // namespace suture
