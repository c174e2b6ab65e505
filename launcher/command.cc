#include "launcher/command.h"

#include <fmt/format.h>

#include <cstdio>

namespace suture {

ExitCode exit_code_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return kExitUsage;
    case ErrorCode::kIncompatible: return kExitRefused;
    case ErrorCode::kCancelled: return kExitInterrupted;
    default: return kExitFailed;
  }
}

void print_json(const nlohmann::json& value) {
  const std::string line =
      value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
}

nlohmann::json error_json(const Error& error) {
  nlohmann::json json = {{"code", error_code_name(error.code)},
                         {"what", error.what},
                         {"where", error.where},
                         {"remedy", error.remedy}};
  if (error.retry_after_seconds > 0) json["retry_after_s"] = error.retry_after_seconds;
  return json;
}

void print_failure(const Error& error, bool json) {
  fmt::print(stderr, "error: {}\n", error.message());
  if (json) print_json({{"error", error_json(error)}});
}

}  // namespace suture
