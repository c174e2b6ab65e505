// Words that an evaluation asks about (--keyword).
#pragma once

#include <string>
#include <vector>

#include "actors/launch_spec.h"
#include "base/error.h"
#include "launcher/eval/eval_set.h"

namespace suture {

// kInvalidArgument names the first word that occurs neither in any item nor in what the topology's
// models read besides: known before hours are spent on it.
Status check_keywords(const std::vector<std::string>& keywords, const std::vector<EvalSet>& sets,
                      const LaunchSpec& topology);

}  // namespace suture
