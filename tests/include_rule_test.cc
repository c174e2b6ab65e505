// Reads all sources and checks which folder includes which (CONTRIBUTING.md, "Folders").
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace suture {
namespace {

namespace fs = std::filesystem;

// From the bottom up. A folder may include itself and those before it.
constexpr std::array<std::string_view, 8> kFolders = {"base",   "schemas", "kernels", "bus",
                                                      "models", "fusion",  "actors",  "launcher"};

// Libraries that stay behind our interfaces: a header that shows one is for its own folder only.
constexpr std::array<std::string_view, 5> kHiddenLibraries = {"caf/", "zmq", "capnp/", "kj/",
                                                              "schemas/"};

struct Include {
  std::string name;  // what stands between the quotes or brackets
  int line = 0;
};

// Includes of every source, by path from the root: "bus/lease.cc".
using Sources = std::map<std::string, std::vector<Include>>;

std::vector<Include> read_includes(const fs::path& path) {
  std::vector<Include> includes;
  std::ifstream file(path);
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    const size_t start = text.find_first_not_of(" \t");
    if (start == std::string::npos || text[start] != '#') continue;
    const size_t word = text.find_first_not_of(" \t", start + 1);
    if (word == std::string::npos || text.compare(word, 7, "include") != 0) continue;
    const size_t open = text.find_first_of("\"<", word);
    if (open == std::string::npos) continue;
    const size_t close = text.find_first_of("\">", open + 1);
    if (close == std::string::npos) continue;
    includes.push_back({text.substr(open + 1, close - open - 1), line});
  }
  return includes;
}

Sources read_sources(const fs::path& root) {
  Sources sources;
  for (const auto folder : kFolders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu") continue;
      sources[fs::relative(entry.path(), root).string()] = read_includes(entry.path());
    }
  }
  return sources;
}

std::string_view folder_of(std::string_view path) { return path.substr(0, path.find('/')); }

std::optional<size_t> rank_of(std::string_view path) {
  const auto* found = std::find(kFolders.begin(), kFolders.end(), folder_of(path));
  if (found == kFolders.end()) return std::nullopt;
  return static_cast<size_t>(found - kFolders.begin());
}

bool is_hidden_library(std::string_view name) {
  return std::any_of(kHiddenLibraries.begin(), kHiddenLibraries.end(),
                     [&](std::string_view library) { return name.starts_with(library); });
}

// Headers that include a hidden library, directly or through one another.
std::set<std::string> internal_headers(const Sources& sources) {
  std::set<std::string> found;
  for (size_t before = found.size() + 1; before != found.size();) {
    before = found.size();
    for (const auto& [path, includes] : sources) {
      if (!path.ends_with(".h")) continue;
      for (const auto& include : includes)
        if (is_hidden_library(include.name) || found.contains(include.name)) found.insert(path);
    }
  }
  return found;
}

// What is wrong, one line each: "bus/lease.cc:7: actors/x.h: bus/ may not include actors/".
std::vector<std::string> violations(const Sources& sources) {
  const auto internal = internal_headers(sources);
  std::vector<std::string> found;
  for (const auto& [path, includes] : sources) {
    for (const auto& [name, line] : includes) {
      const std::string place = path + ":" + std::to_string(line) + ": " + name + ": ";
      const auto report = [&](const std::string& what) { found.push_back(place + what); };
      const auto other = rank_of(name);
      if (name.starts_with("../")) report("not written from the root");
      if (other && *other > *rank_of(path))
        report(std::string(folder_of(path)) + "/ may not include " + std::string(folder_of(name)) +
               "/");
      if (internal.contains(name) && folder_of(name) != folder_of(path))
        report("shows CAF, ZeroMQ or Cap'n Proto, so only its own folder may include it");
    }
  }
  return found;
}

TEST(IncludeRuleTest, FoldersIncludeOnlyThoseBelowThem) {
  const auto sources = read_sources(SUTURE_SOURCE_DIR);
  ASSERT_TRUE(sources.contains("base/error.h"));
  for (const auto& violation : violations(sources)) ADD_FAILURE() << violation;
}

TEST(IncludeRuleTest, AllowsWhatLiesBelow) {
  const Sources sources = {{"bus/lease.cc", {{"capnp/message.h", 1}, {"bus/wire.h", 2}}},
                           {"bus/wire.h", {{"capnp/message.h", 1}, {"kernels/dtype.h", 2}}},
                           {"kernels/dtype.h", {{"vector", 1}}}};
  EXPECT_TRUE(violations(sources).empty());
}

TEST(IncludeRuleTest, ReportsUpwardIncludes) {
  const Sources sources = {{"kernels/rope.cc", {{"string", 1}, {"bus/layout.h", 2}}}};
  EXPECT_EQ(
      violations(sources),
      std::vector<std::string>{"kernels/rope.cc:2: bus/layout.h: kernels/ may not include bus/"});
}

TEST(IncludeRuleTest, ReportsRelativeIncludes) {
  const Sources sources = {{"bus/lease.cc", {{"../kernels/dtype.h", 1}}}};
  EXPECT_EQ(violations(sources).size(), 1u);
}

TEST(IncludeRuleTest, ReportsHeadersThatCarryHiddenLibrariesAbroad) {
  const Sources sources = {{"actors/types.h", {{"caf/all.hpp", 1}}},
                           {"actors/messages.h", {{"actors/types.h", 1}}},
                           {"launcher/spawn.cc", {{"actors/messages.h", 5}}}};
  const auto found = violations(sources);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("launcher/spawn.cc:5: actors/messages.h: shows CAF"));
}

}  // namespace
}  // namespace suture
