// What came of a question.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/attention_shares.h"
#include "actors/figures.h"
#include "actors/messages.h"

namespace suture {

// What a slave said by itself before the master answered.
struct DraftedText {
  std::string slave;
  std::vector<int32_t> token_ids;  // in the slave's vocabulary
  std::string text;
  double seconds = 0;        // from its first token to its last; with the reading if handed over
  bool handed_over = false;  // in words, instead of its K/V
};

struct Answer {
  std::string text;                // as it was shown: without the string that stopped it
  std::vector<int32_t> token_ids;  // those whose text was shown whole
  FinishReason reason = FinishReason::kStop;
  int64_t prompt_tokens = 0;       // the master's own
  double waited_seconds = 0;       // from asking until its turn came
  double first_token_seconds = 0;  // from asking to the first token
  double seconds = 0;              // from asking to the last
  std::vector<ProcessFigures> figures;
  std::vector<Degraded> degraded;
  std::vector<Replayed> replayed;
  std::vector<std::string> forced;  // what speaks against a projector that `force` made use of
  std::vector<TraceSpan> spans;
  AttentionShares attention;        // where it was asked for
  std::vector<DraftedText> drafts;  // of slaves that took part with one
};

struct LikelyToken {
  int32_t id = 0;
  float logprob = 0;  // ln p
};

struct ScoredToken {
  int32_t id = 0;
  float logprob = 0;                  // ln p, given everything before it
  bool best = false;                  // no other token is more likely
  std::vector<LikelyToken> top = {};  // as many as were asked for, most likely first
  std::vector<float> watched = {};    // ln p of this place's watched tokens
};

struct ScoredContinuation {
  std::vector<ScoredToken> tokens;
  double logprob() const {  // of all of them together
    double sum = 0;
    for (const ScoredToken& token : tokens) sum += token.logprob;
    return sum;
  }
};

// What came of scoring.
struct Scoring {
  std::vector<ScoredContinuation> continuations;  // in the order they were given
  std::vector<int32_t> question_ids;              // the master's own tokens before them
  std::vector<ProcessFigures> figures;            // of all passes together
  std::vector<Degraded> degraded;                 // slaves that did not take part in all of them
  std::vector<std::string> forced;                // as in Answer
  double seconds = 0;                             // from asking, without waiting for a turn
  AttentionShares attention;                      // where it was asked for, of all passes together
};

// "stop", "length", "cancelled", "error", "deadline".
std::string_view finish_reason_name(FinishReason reason);
// Somebody wanted no more of it, or not in time.
inline bool ended_early(FinishReason reason) {
  return reason == FinishReason::kCancelled || reason == FinishReason::kDeadline;
}

}  // namespace suture
