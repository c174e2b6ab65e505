// Asks a list of questions one after another, shows the answers as they come, and adds up what the
// processes did.
#pragma once

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/launch_spec.h"
#include "base/error.h"
#include "launcher/attach.h"
#include "launcher/question_set.h"

namespace suture {

struct AnsweredQuestion {
  QuestionItem item;
  Answer answer;
  int64_t facts_held = 0;
};

struct SessionResult {
  std::vector<AnsweredQuestion> questions;
  std::vector<ProcessFigures> processes;  // of all questions together, in order of appearance
  double seconds = 0;                     // answering, without loading
  int64_t facts_held = 0;
  int64_t facts_expected = 0;
};

struct SessionOptions {
  std::vector<QuestionItem> items;
  AskOptions ask;     // `text` is the item's
  bool print = true;  // stream the answers to standard output
};

// Stops at the first question that fails, or when `cancelled` is set: kCancelled.
Result<SessionResult> run_session(const Asker& asker, const SessionOptions& options,
                                  const std::atomic<bool>& cancelled);

nlohmann::json to_json(const SessionResult& result);

// The topology with which one process reads everything that the launch's processes read: the
// honest comparison. kInvalidArgument if a slave has a system prompt of its own.
Result<LaunchSpec> one_process_spec(const LaunchSpec& spec);

}  // namespace suture
