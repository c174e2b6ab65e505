#include "launcher/topology_schema.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "launcher/topology.h"

namespace suture {
namespace {

// A topology with one unknown key in the table.
std::string with_unknown_key(std::string_view table) {
  const std::string model = "[[model]]\nname = \"m\"\nrole = \"master\"\npath = \"a\"\n";
  if (table.empty()) return fmt::format("zzz = 1\n{}", model);
  if (table == "model") return model + "zzz = 1\n";
  if (table == "fusion")
    return model +
           "[[model]]\nname = \"s\"\nrole = \"slave\"\npath = \"a\"\nfusion = { zzz = 1 }\n";
  return fmt::format("[{}]\nzzz = 1\n{}", table, model);
}

// What the reader names as known in that table.
std::set<std::string> keys_read(std::string_view table) {
  const auto spec = parse_topology(with_unknown_key(table), "t.toml");
  if (spec) return {};
  const std::string& remedy = spec.error().remedy;
  constexpr std::string_view kBefore = "known keys: ";
  const size_t at = remedy.find(kBefore);
  if (at == std::string::npos) return {};
  std::set<std::string> keys;
  std::string rest = remedy.substr(at + kBefore.size());
  for (size_t end = 0; end != std::string::npos; rest.erase(0, end + 2)) {
    end = rest.find(", ");
    keys.insert(rest.substr(0, end));
    if (end == std::string::npos) break;
  }
  return keys;
}

std::set<std::string> keys_described(std::string_view table) {
  std::set<std::string> keys;
  for (const TopologyKey& key : topology_keys())
    if (key.table == table) keys.emplace(key.name);
  return keys;
}

// Fails when launcher/topology.cc learns a key: describe it in launcher/topology_schema.cc.
TEST(TopologySchemaTest, DescribesExactlyWhatTheReaderKnows) {
  for (const std::string_view table : {"bus", "model", "fusion", "sampling"})
    EXPECT_EQ(keys_described(table), keys_read(table)) << table;
  std::set<std::string> file = keys_described("");
  file.insert({"bus", "model", "sampling"});  // the tables themselves
  EXPECT_EQ(file, keys_read(""));
}

TEST(TopologySchemaTest, DefaultsAreTheReaders) {
  const auto spec =
      parse_topology("[[model]]\nname = \"m\"\nrole = \"master\"\npath = \"a\"\n", "t");
  ASSERT_TRUE(spec.has_value()) << spec.error().message();
  const nlohmann::json schema = topology_schema_json().at("properties");
  EXPECT_EQ(schema["bus"]["properties"]["max_seq_len"]["default"], spec->max_seq_len);
  EXPECT_EQ(schema["bus"]["properties"]["max_sequences"]["default"], spec->max_sequences);
  EXPECT_EQ(schema["bus"]["properties"]["hung_after"]["default"], spec->hung_after.count() / 1000);
  EXPECT_EQ(schema["warm_up"]["default"], spec->warm_up);
  EXPECT_EQ(schema["restarts"]["default"], spec->restarts);
  EXPECT_EQ(schema["stitch_until"]["default"], spec->stitch_limit());
  EXPECT_EQ(schema["model"]["items"]["properties"]["threads"]["default"], spec->models[0].threads);
  const nlohmann::json& fusion = schema["model"]["items"]["properties"]["fusion"]["properties"];
  EXPECT_EQ(fusion["lag"]["default"], spec->models[0].fusion.lag);
  EXPECT_EQ(fusion["gain"]["default"], spec->models[0].fusion.gain);
  const nlohmann::json& sampling = schema["sampling"]["properties"];
  EXPECT_EQ(sampling["top_k"]["default"], spec->sampling.top_k);
  EXPECT_EQ(sampling["top_p"]["default"], spec->sampling.top_p);
  EXPECT_EQ(sampling["temperature"]["default"], spec->sampling.temperature);
  EXPECT_EQ(sampling["min_p"]["default"], spec->sampling.min_p);
  EXPECT_EQ(sampling["repetition_penalty"]["default"], spec->sampling.repetition_penalty);
  EXPECT_EQ(sampling["repetition_window"]["default"], spec->sampling.repetition_window);
  EXPECT_EQ(sampling["max_tokens"]["default"], spec->max_tokens);
}

TEST(TopologySchemaTest, IsAJsonSchemaWithChoicesAndRequiredKeys) {
  const nlohmann::json schema = topology_schema_json();
  EXPECT_EQ(schema.at("additionalProperties"), false);
  EXPECT_EQ(schema.at("properties").at("placement").at("enum"),
            nlohmann::json::parse(R"(["processes", "in-process"])"));
  const nlohmann::json& model = schema.at("properties").at("model").at("items");
  EXPECT_EQ(model.at("required"), nlohmann::json::parse(R"(["name", "role", "path"])"));
  EXPECT_EQ(model.at("properties").at("role").at("enum").size(), 2u);
  EXPECT_FALSE(model.at("properties").at("name").contains("default"));
}

TEST(TopologySchemaTest, TheListingNamesEveryKey) {
  const std::string text = topology_schema_text();
  for (const TopologyKey& key : topology_keys()) {
    EXPECT_NE(text.find(key.name), std::string::npos) << key.name;
    EXPECT_NE(text.find(key.meaning), std::string::npos) << key.name;
  }
}

}  // namespace
}  // namespace suture
