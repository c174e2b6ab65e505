#include "launcher/snapshot_json.h"

#include <gtest/gtest.h>

namespace suture {
namespace {

LaunchSnapshot sample() {
  LaunchSnapshot snapshot{
      .time_ns = 50, .started_ns = 20, .requests = 2, .waiting = 1, .processes = {}};
  ProcessSnapshot master;
  master.name = "master";
  master.device = "cpu";
  master.pid = 17;
  master.state = ProcessState::kGenerating;
  master.resident_bytes = 1000;
  master.slab.request = 5;
  master.slab.tokens_computed = 123;
  master.slab.blocks = 8;
  master.slab.streams = {{.slot = 1,
                          .request = 5,
                          .state = StreamState::kOpen,
                          .tokens = 12,
                          .blocks = 2,
                          .readers = 1}};
  ProcessSnapshot slave;
  slave.name = "slave";
  slave.role = Role::kSlave;
  slave.state = ProcessState::kLost;
  slave.why = "killed";
  snapshot.processes = {master, slave};
  return snapshot;
}

TEST(SnapshotJsonTest, ComesBackAsItWas) {
  const auto back = snapshot_from_json(nlohmann::json::parse(to_json(sample()).dump()));
  ASSERT_TRUE(back.has_value()) << back.error().message();
  EXPECT_EQ(to_json(*back), to_json(sample()));
  EXPECT_EQ(back->processes[0].state, ProcessState::kGenerating);
  EXPECT_EQ(back->processes[0].slab.streams[0].state, StreamState::kOpen);
  EXPECT_EQ(back->processes[1].role, Role::kSlave);
  EXPECT_EQ(back->processes[1].why, "killed");
}

// Removes or spoils every member in turn, however deep it lies.
void expect_named(const nlohmann::json& whole, const nlohmann::json::json_pointer& at) {
  const nlohmann::json& inner = whole.at(at);
  for (const auto& [key, value] : inner.items()) {
    nlohmann::json part = whole;
    if (inner.is_object()) {
      part.at(at).erase(key);
      const auto result = snapshot_from_json(part);
      ASSERT_FALSE(result.has_value()) << at.to_string() << " " << key;
      EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
      EXPECT_NE(result.error().what.find(key), std::string::npos) << result.error().what;
    }
    if (value.is_structured())
      expect_named(whole, inner.is_object() ? at / key : at / std::stoul(key));
  }
}

TEST(SnapshotJsonTest, EveryMissingFieldIsNamed) {
  expect_named(to_json(sample()), nlohmann::json::json_pointer());
  for (const char* text : {"[]", "3", "null", R"({"time_ns":"x"})"})
    EXPECT_FALSE(snapshot_from_json(nlohmann::json::parse(text)).has_value()) << text;
}

}  // namespace
}  // namespace suture
