// Runs Python programs that a model wrote, where they can do no harm: no network, no new
// processes, no change to any file, bounded time, memory and output.
#pragma once

#include <linux/filter.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace suture {

struct SandboxLimits {
  double wall_seconds = 10;
  int cpu_seconds = 5;
  size_t memory_bytes = size_t{512} << 20;  // address space
  size_t output_bytes = size_t{64} << 10;
};

enum class SandboxVerdict { kPassed, kFailed, kTimedOut, kOutOfMemory };

struct SandboxResult {
  SandboxVerdict verdict = SandboxVerdict::kFailed;
  std::string reason;  // one line: "AssertionError: ..."; empty if it passed
  std::string output;  // standard output and error, valid UTF-8
  double seconds = 0;  // wall time
};

class PythonSandbox {
 public:
  // Finds the interpreter and tries the walls out. kNotFound without python3, kUnsupported if this
  // kernel does not confine programs.
  static Result<PythonSandbox> create(const SandboxLimits& limits = {});

  // A program passes if it runs to its end: one that exits early, even with status 0, fails.
  // Several threads may run programs at once. Errors are the sandbox's own, not the program's.
  Result<SandboxResult> run(std::string_view program) const;

  const std::filesystem::path& interpreter() const { return interpreter_; }

 private:
  PythonSandbox(std::filesystem::path interpreter, const SandboxLimits& limits,
                std::vector<sock_filter> filter)
      : interpreter_(std::move(interpreter)), limits_(limits), filter_(std::move(filter)) {}
  Status try_walls() const;

  std::filesystem::path interpreter_;
  SandboxLimits limits_;
  std::vector<sock_filter> filter_;
};

// "passed", "failed", "timed_out", "out_of_memory"
std::string_view verdict_name(SandboxVerdict verdict);

}  // namespace suture
