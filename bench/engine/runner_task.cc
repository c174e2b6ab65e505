#include "bench/engine/runner_task.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace suture {

std::string task_line(const RunnerTask& task) {
  return task.generated_tokens > 0
             ? fmt::format("decode {} {}", task.history, task.generated_tokens)
             : fmt::format("prefill {}", task.prompt_tokens);
}

std::optional<RunnerTask> parse_task(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::string name;
  RunnerTask task;
  words >> name;
  if (name == "prefill" && words >> task.prompt_tokens && task.prompt_tokens > 0) return task;
  if (name == "decode" && words >> task.history >> task.generated_tokens && task.history > 0 &&
      task.generated_tokens > 0)
    return task;
  return std::nullopt;
}

std::string reply_line(const RunnerSeconds& seconds) {
  return fmt::format(R"({{"seconds": {:.9f}, "cpu_seconds": {:.9f}}})", seconds.wall, seconds.cpu);
}

std::optional<RunnerSeconds> parse_reply(std::string_view line) {
  const auto reply = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object()) return std::nullopt;
  const auto wall = reply.find("seconds");
  const auto cpu = reply.find("cpu_seconds");
  const bool known =
      wall != reply.end() && wall->is_number() && cpu != reply.end() && cpu->is_number();
  if (!known || wall->get<double>() <= 0) return std::nullopt;
  return RunnerSeconds{wall->get<double>(), cpu->get<double>()};
}

}  // namespace suture
