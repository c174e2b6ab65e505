// How likely a model finds a sequence of tokens, and what it would say next.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/kv_cache.h"
#include "models/language_model.h"

namespace suture {

struct Score {
  std::vector<float> token_nll;                // [n - 1]: -ln p(ids[i + 1] | ids[0 .. i]), nats
  double mean_nll = 0;                         // 0 for a single token, which predicts nothing
  std::vector<std::pair<int32_t, float>> top;  // best 20 of the last position: id, logit
  float logsumexp = 0;                         // of the last position's logits
  std::vector<int32_t> greedy;                 // what follows, end tokens ignored
};

// `path` says with which kernels the ids are read.
// `cache` must be empty and have room for ids and `greedy` further tokens.
Result<Score> score(LanguageModel& model, KvCache& cache, std::span<const int32_t> ids,
                    int64_t greedy, MatmulPath path = MatmulPath::kPrefill);

}  // namespace suture
