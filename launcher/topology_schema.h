// Every key of the topology file, described once: what `suture config` prints. A test holds it
// against what launcher/topology.cc reads.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace suture {

enum class KeyType : uint8_t { kInteger, kNumber, kBoolean, kText, kTexts, kTable };

struct TopologyKey {
  std::string_view table;  // "" = top level, "bus", "model", "fusion", "sampling"
  std::string_view name;
  KeyType type = KeyType::kText;
  std::string_view values;     // what is allowed, in words; words to choose from are in quotes
  std::string_view otherwise;  // what holds without the key; "required" if it cannot be left out
  std::string_view meaning;
};

// In the order of the tables, and within them in the order in which they are best read.
std::span<const TopologyKey> topology_keys();

// A listing for people.
std::string topology_schema_text();
// A JSON Schema (draft 2020-12) of the topology file, as a TOML reader gives it.
nlohmann::json topology_schema_json();

}  // namespace suture
