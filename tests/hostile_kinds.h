// The kinds of files that Suture reads, and the property that any content of them must have: it
// opens, or is refused with an error that names the file; in memory that its size bounds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace suture {

struct HostileKind {
  std::string name;                // also the folder of its cases in tests/data/hostile
  std::string file;                // the file that is hostile, in the folder of the case
  std::vector<std::string> valid;  // contents to damage
  bool is_text = false;

  // Puts `content` into `folder`, with the valid files it needs beside it, and opens it all the way
  // to a forward pass. Empty if the property holds, else what is wrong.
  std::string (*problem)(const std::filesystem::path& folder, const HostileKind& kind,
                         const std::string& content) = nullptr;
};

const std::vector<HostileKind>& hostile_kinds();

// How the case ended, for people: "opened", or the error.
const std::string& last_outcome();

}  // namespace suture
