// An answer as JSON: what `run --json` prints and what the attach socket carries.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "actors/launch.h"
#include "base/error.h"

namespace suture {

nlohmann::json to_json(const ProcessFigures& figures);
nlohmann::json to_json(const Answer& answer);  // spans included only if there are any
nlohmann::json to_json(const AskOptions& options);
nlohmann::json to_json(const std::vector<ChatTurn>& turns);

// From another process: kCorrupt names the field that is missing or of the wrong type.
Result<Answer> answer_from_json(const nlohmann::json& json);
Result<AskOptions> ask_options_from_json(const nlohmann::json& json);
Result<std::vector<ChatTurn>> chat_turns_from_json(const nlohmann::json& json);
Result<Error> error_from_json(const nlohmann::json& json);

}  // namespace suture
