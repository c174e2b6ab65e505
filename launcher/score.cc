#include "launcher/score.h"

#include <numeric>

#include "models/logits_reader.h"

namespace suture {
namespace {

constexpr int64_t kTop = 20;

// What follows the prompt whose last row has these logits.
Result<std::vector<int32_t>> decode_greedily(LanguageModel& model, KvCache& cache,
                                             LogitsReader& reader, int32_t first, int64_t count) {
  std::vector<int32_t> ids;
  int32_t next = first;
  while (std::ssize(ids) < count) {
    ids.push_back(next);
    if (std::ssize(ids) == count) break;
    SUTURE_ASSIGN_OR_RETURN(const float* logits, model.decode(next, cache));
    SUTURE_ASSIGN_OR_RETURN(const auto best, reader.top(logits, 1));
    next = best.front().first;
  }
  return ids;
}

}  // namespace

Result<Score> score(LanguageModel& model, KvCache& cache, std::span<const int32_t> ids,
                    int64_t greedy, MatmulPath path) {
  Score result;
  SUTURE_ASSIGN_OR_RETURN(LogitsReader reader, LogitsReader::create(model.device(), model.stream(),
                                                                    model.config().vocab_size));
  PrefillArgs args;
  args.token_ids = ids;
  args.cache = &cache;
  args.path = path;
  args.on_logits = [&](int64_t row, const float* logits) -> Status {
    SUTURE_ASSIGN_OR_RETURN(result.logsumexp, reader.log_sum_exp(logits));
    const auto next = static_cast<size_t>(row) + 1;
    if (next == ids.size()) return {};
    SUTURE_ASSIGN_OR_RETURN(const float logit, reader.read(logits + ids[next]));
    result.token_nll.push_back(result.logsumexp - logit);
    return {};
  };
  SUTURE_ASSIGN_OR_RETURN(const float* last, model.prefill(args));
  SUTURE_ASSIGN_OR_RETURN(result.top, reader.top(last, kTop));
  const double sum = std::accumulate(result.token_nll.begin(), result.token_nll.end(), 0.0);
  if (!result.token_nll.empty()) result.mean_nll = sum / std::size(result.token_nll);
  if (greedy > 0) {
    SUTURE_ASSIGN_OR_RETURN(
        result.greedy, decode_greedily(model, cache, reader, result.top.front().first, greedy));
  }
  return result;
}

}  // namespace suture
