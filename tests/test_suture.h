// Runs the suture program as users do, and looks at what it says.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace suture {

struct SutureRun {
  int exit_code = 0;   // 128 + signal number if a signal ended it
  std::string output;  // standard output
  std::string errors;  // standard error

  // The one JSON value that --json promises: one line, nothing else. Fails the test if it is not.
  nlohmann::json json() const;
};

// `environment` holds "NAME=value" entries that replace those of this process.
SutureRun run_suture(const std::vector<std::string>& arguments, const std::string& input = {},
                     const std::vector<std::string>& environment = {});

}  // namespace suture
