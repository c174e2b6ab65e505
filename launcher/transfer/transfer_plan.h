// Which texts are measured at which length of context, and what the control reads instead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace suture {

// A text in the target's tokens.
struct TokenText {
  std::string kind;
  std::vector<int32_t> ids;
};

// A text cut after a context.
struct Passage {
  std::string kind;
  std::vector<int32_t> context;
  std::vector<int32_t> continuation;
  std::vector<int32_t> other;  // as long a context from another text
};

struct LengthPlan {
  int64_t tokens = 0;  // of the context, with what the target puts before every text
  std::vector<Passage> passages;
  std::vector<int32_t> timed;  // the context that is timed
  bool joined = false;         // no text is as long: several after one another are timed
};

struct PlanOptions {
  std::vector<int64_t> lengths;  // of contexts, rising
  int64_t continued = 96;        // tokens after the context
  int64_t head = 0;              // tokens that the target puts before every text
  int64_t limit = 0;             // texts a length, drawn by the seed; 0 = all that reach it
  uint64_t seed = 0;
};

// kInvalidArgument if there are fewer than two texts: the control needs another one.
Result<std::vector<LengthPlan>> plan_transfer(const std::vector<TokenText>& texts,
                                              const PlanOptions& options);

// The first `size` tokens of the texts one after another, from text `first` on and around,
// without text `without`. At least one of the others must have tokens.
std::vector<int32_t> joined_tokens(const std::vector<TokenText>& texts, size_t first,
                                   size_t without, int64_t size);

}  // namespace suture
