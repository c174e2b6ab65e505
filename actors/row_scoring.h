// How likely a model finds tokens that are given, by its rows of logits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "actors/messages.h"
#include "base/error.h"
#include "models/language_model.h"
#include "models/logits_reader.h"

namespace suture {

class RowScoring {
 public:
  // Of `n_tokens` tokens. `detail` comes from another process: kInvalidArgument if it is not
  // possible. The model must outlive the object.
  static Result<RowScoring> create(LanguageModel& model, int64_t n_tokens, ScoreDetail detail);

  // The next one is `token`; `logits` [vocab] in device memory.
  Status add(const float* logits, int32_t token);
  // The text begins again.
  void clear() { scores_.clear(); }
  std::vector<TokenScore> take() { return std::move(scores_); }

 private:
  RowScoring(LogitsReader reader, ScoreDetail detail, int64_t watched_each)
      : reader_(std::move(reader)), detail_(std::move(detail)), watched_each_(watched_each) {}

  LogitsReader reader_;
  ScoreDetail detail_;
  int64_t watched_each_;  // tokens of detail_.watched for each scored one
  std::vector<TokenScore> scores_;
};

}  // namespace suture
