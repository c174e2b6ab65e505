// Runs another program to its end, without a shell.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace suture {

struct ProgramResult {
  int exit_code = 0;   // 128 + signal number if a signal ended it
  std::string output;  // standard output and standard error together, the last 64 KiB
};

// argv[0] is looked up in PATH. kNotFound if there is no such program.
Result<ProgramResult> run_program(const std::vector<std::string>& argv);

}  // namespace suture
