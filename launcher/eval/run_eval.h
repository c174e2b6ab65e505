// Puts every item of some sets to every arm of a topology.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "actors/launch.h"
#include "base/error.h"
#include "launcher/eval/arms.h"
#include "launcher/eval/eval_result.h"
#include "launcher/eval/eval_set.h"
#include "launcher/eval/judge.h"

namespace suture {

struct EvalOptions {
  std::vector<Arm> arms;
  std::vector<Metric> choice = {Metric::kOptionText, Metric::kOptionLetter};
  int64_t max_tokens = 0;    // of an answer; 0 = as the metric needs
  int64_t limit = 0;         // items of each set, drawn by the seed; 0 = all
  uint64_t seed = 0;         // draws the items, and which one is whose other item
  int64_t side_by_side = 1;  // items at once; company changes no answer
  AttentionQuery attention = {};
};

// A launch that is asked, and what it needs to live.
struct StartedSubject {
  Subject subject;
  std::shared_ptr<void> keep;
};

struct EvalSurroundings {
  // Starts what an arm is.
  std::function<Result<StartedSubject>(const LaunchSpec& spec)> start;
  // Steps are one item of one arm, or one slave's answer to one item. From several threads, one
  // call at a time.
  std::function<void(std::string_view what, int64_t done, int64_t total)> on_progress;
  const PythonSandbox* sandbox = nullptr;  // needed for sets of programs
};

// Which items of a set of `size` are taken, and whose message each gets when it gets another one's.
struct Sample {
  std::vector<size_t> items;   // ascending
  std::vector<size_t> others;  // [items] another one of the set; the same where there is no other
};
Sample draw_sample(size_t size, int64_t limit, uint64_t seed);

// Goes on to the end unless `cancelled` is set or a launch fails; what was measured until then is
// returned. Items that do not fit into a launch are noted and left out.
EvalResult run_eval(const LaunchSpec& topology, const std::vector<EvalSet>& sets,
                    const EvalOptions& options, const EvalSurroundings& surroundings,
                    const std::atomic<bool>& cancelled);

}  // namespace suture
