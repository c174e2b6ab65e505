// What an evaluation measured, item by item.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch_spec.h"
#include "base/error.h"
#include "launcher/eval/arms.h"
#include "launcher/eval/judge.h"

namespace suture {

struct ArmResult {
  Arm arm;
  std::vector<std::optional<Judgement>> judged;  // [items]; nothing = not measured
  int64_t refused = 0;                           // items that do not fit, of those
  std::string why_refused;                       // the first one
};

// One set, judged in one way.
struct TaskResult {
  std::string set;
  Metric metric = Metric::kOptionText;
  std::vector<std::string> ids;  // of the items
  std::vector<ArmResult> arms;
};

struct EvalResult {
  std::vector<TaskResult> tasks;
  std::optional<Error> ended_by;  // what ended it early: kCancelled was the user
  double seconds = 0;
};

}  // namespace suture
