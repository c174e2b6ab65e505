// An evaluation as JSON, and as a report to be read.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "actors/launch_spec.h"
#include "launcher/eval/eval_result.h"

namespace suture {

// With every item's score and answer, so that others can test it in their own way.
nlohmann::json eval_json(const LaunchSpec& topology, const EvalResult& result, uint64_t seed);

// Markdown.
std::string eval_report(const LaunchSpec& topology, const EvalResult& result, uint64_t seed);

}  // namespace suture
