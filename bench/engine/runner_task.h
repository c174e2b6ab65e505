// What a runner is told to do, a line each, and what it answers: the same words for our engine
// (engine_runner) and for a peer's (bench/peer), so that both are driven and timed alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace suture {

struct RunnerTask {
  int64_t history = 0;           // tokens that are there before the clock starts
  int64_t prompt_tokens = 0;     // to read; either these
  int64_t generated_tokens = 0;  // or these

  bool operator==(const RunnerTask&) const = default;
};

// "prefill 512", "decode 8192 48".
std::string task_line(const RunnerTask& task);
std::optional<RunnerTask> parse_task(std::string_view line);

struct RunnerSeconds {
  double wall = 0;
  double cpu = 0;  // of all threads together
};

// {"seconds": S, "cpu_seconds": C}
std::string reply_line(const RunnerSeconds& seconds);
std::optional<RunnerSeconds> parse_reply(std::string_view line);

}  // namespace suture
