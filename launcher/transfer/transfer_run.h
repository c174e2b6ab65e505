// Puts the passages of a plan to every arm of a transfer benchmark, and times what each arm does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/launch.h"
#include "base/error.h"
#include "launcher/transfer/transfer_metrics.h"
#include "launcher/transfer/transfer_plan.h"
#include "models/tokenizer.h"

namespace suture {

// The most likely tokens of the target's own reading that are compared one by one.
inline constexpr int32_t kComparedTokens = 64;

// A launch that scores, and what it needs to live.
struct TransferSubject {
  std::function<Result<Scoring>(const TokenScoreOptions&)> score;
  std::shared_ptr<void> keep = nullptr;
};

struct TransferSetup {
  // Names of the processes, by which their figures are found.
  std::string source = "source";
  std::string target = "target";
  LaunchSpec target_alone;
  LaunchSpec source_alone;
  LaunchSpec transferring;
  LaunchSpec text_only;  // the same, with nothing transferred
  // The target's tokens as the source's; the identity for one vocabulary.
  std::function<std::vector<int32_t>(const std::vector<int32_t>&)> source_tokens;
  // Read where there is no context: what follows must follow something. Nothing if the target puts
  // a token before every text anyway.
  std::optional<int32_t> beginning;
  double target_cost = 1;  // of a token, for the time that is left
  double source_cost = 1;
};

struct TransferSurroundings {
  std::function<Result<TransferSubject>(const LaunchSpec&)> start;
  // `share` of the work is done.
  std::function<void(std::string_view what, double share)> on_progress;
};

// Seconds, of the quickest of several measurements.
struct TransferTimes {
  double normal = 0;      // the target reads the context
  double whole = 0;       // transferred: from asking until the target could go on
  double source = 0;      // of these, the source reads it
  double projection = 0;  // the source's rows are mapped and published
  double reread = 0;      // the target reads the first and last tokens, while the last are mapped

  // What comes on top of the source's reading.
  double transfer() const { return whole - source; }
};

struct LengthResult {
  std::vector<PassageResult> passages;  // as in the plan
  TransferTimes times;
};

struct TransferResult {
  std::vector<LengthResult> lengths;  // as in the plan
  std::optional<Error> ended_by;      // what ended it early: kCancelled was the user
  double seconds = 0;
};

TransferResult run_transfer(const TransferSetup& setup, const std::vector<LengthPlan>& plans,
                            const TransferSurroundings& surroundings,
                            const std::atomic<bool>& cancelled);

}  // namespace suture
