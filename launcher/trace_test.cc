#include "launcher/trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/test_folder.h"

namespace suture {
namespace {

using nlohmann::json;

std::vector<TraceSpan> spans() {
  return {{"master", "prefill", 5'000'000, 2'000'000},
          {"slave \"a\"", "prefill", 4'000'000, 500},
          {"master", "decode", 8'000'000, 1'000'000}};
}

TEST(TraceTest, GivesEveryProcessANamedTrack) {
  const json trace = json::parse(trace_json(spans()));
  std::vector<std::string> names;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "M") names.push_back(event["args"]["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"master", "slave \"a\""}));
}

TEST(TraceTest, TimesAreMicrosecondsFromTheFirstSpan) {
  const json trace = json::parse(trace_json(spans()));
  std::vector<json> complete;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X") complete.push_back(event);
  ASSERT_EQ(complete.size(), 3u);
  EXPECT_EQ(complete[0]["ts"], 1000.0);
  EXPECT_EQ(complete[0]["dur"], 2000.0);
  EXPECT_EQ(complete[1]["ts"], 0.0);
  EXPECT_EQ(complete[1]["dur"], 0.5);
  EXPECT_EQ(complete[2]["pid"], complete[0]["pid"]);
  EXPECT_NE(complete[1]["pid"], complete[0]["pid"]);
}

TEST(TraceTest, WritesAFileOrSaysWhyNot) {
  const TestFolder folder;
  const auto path = folder.path() / "trace.json";
  ASSERT_TRUE(write_trace(path, spans()).has_value());
  EXPECT_EQ(json::parse(std::ifstream(path)), json::parse(trace_json(spans())));
  EXPECT_EQ(write_trace(folder.path() / "none" / "trace.json", {}).error().code, ErrorCode::kIo);
}

TEST(TraceTest, AFullDiskIsAnErrorWithItsReason) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  EXPECT_TRUE(check_trace_file("/dev/full").has_value());
  const Status written = write_trace("/dev/full", {});
  ASSERT_FALSE(written.has_value());
  EXPECT_NE(written.error().what.find("No space left"), std::string::npos) << written.error().what;
  EXPECT_FALSE(check_trace_file("/no/such/folder/t.json").has_value());
}

TEST(TraceTest, NoSpansAreAValidTrace) {
  EXPECT_TRUE(json::parse(trace_json({}))["traceEvents"].empty());
}

}  // namespace
}  // namespace suture
