// Puts one item to a launch and judges what comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "actors/launch.h"
#include "base/error.h"
#include "launcher/eval/arm_input.h"
#include "launcher/eval/sandbox.h"

namespace suture {

// How items of a set are judged; a set of multiple choice can be judged in two ways.
enum class Metric : uint8_t {
  kOptionText,    // the option whose text has the highest likelihood per token
  kOptionLetter,  // the option whose letter is the most likely one
  kNumber,        // the last number of the answer
  kProgram,       // a program that passes its test
  kFacts,         // the share of the required facts that the answer holds
  kLikelihood,    // the mean log-likelihood of the text's second half, nats a token
};
// "option text", "option letter", "last number", "pass@1", "facts", "ln p a token".
std::string_view metric_name(Metric metric);
// Whether scores are shares, from 0 to 1.
inline bool is_share(Metric metric) { return metric != Metric::kLikelihood; }

// Who is asked.
struct Subject {
  std::function<Result<Answer>(const AskOptions&)> ask;
  std::function<Result<Scoring>(const ScoreOptions&)> score;
};

struct JudgeOptions {
  AskOptions ask;  // how answers are generated, and what is asked of them; texts are the item's
  const PythonSandbox* sandbox = nullptr;  // for kProgram
};

struct Judgement {
  double score = 0;                // 0 = wrong, 1 = right; or what the metric says
  std::string answer;              // as text; the option's letter
  bool degraded = false;           // slaves were lost on the way
  bool cut_short = false;          // the answer was as long as was allowed, and not at its end
  double seconds = 0;              // of the launch's work
  AttentionShares attention = {};  // where it was asked for
};

// kCancelled where the answer was interrupted.
Result<Judgement> judge(const Subject& subject, Metric metric, const ArmInput& input,
                        const JudgeOptions& options);

// Most tokens of an answer, where the user does not say.
int64_t default_answer_tokens(Metric metric);

}  // namespace suture
