#include "launcher/transfer/transfer_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "launcher/eval/run_eval.h"

namespace suture {
namespace {

std::vector<int32_t> part(const std::vector<int32_t>& ids, int64_t begin, int64_t size) {
  return {ids.begin() + begin, ids.begin() + begin + size};
}

LengthPlan plan_length(const std::vector<TokenText>& texts, int64_t tokens,
                       const PlanOptions& options) {
  const int64_t size = tokens - options.head;
  std::vector<size_t> long_enough;
  for (size_t i = 0; i < texts.size(); ++i)
    if (std::ssize(texts[i].ids) >= size + options.continued) long_enough.push_back(i);
  LengthPlan plan{.tokens = tokens, .passages = {}, .timed = {}, .joined = long_enough.empty()};
  if (plan.joined) {
    plan.timed = joined_tokens(texts, 0, texts.size(), size);
    return plan;
  }
  const Sample sample = draw_sample(long_enough.size(), options.limit, options.seed);
  for (size_t i = 0; i < sample.items.size(); ++i) {
    const size_t own = long_enough[sample.items[i]];
    const size_t other = long_enough[sample.others[i]];
    const TokenText& text = texts[own];
    plan.passages.push_back({.kind = text.kind,
                             .context = part(text.ids, 0, size),
                             .continuation = part(text.ids, size, options.continued),
                             .other = other != own ? part(texts[other].ids, 0, size)
                                                   : joined_tokens(texts, own + 1, own, size)});
  }
  plan.timed = plan.passages.front().context;
  return plan;
}

}  // namespace

std::vector<int32_t> joined_tokens(const std::vector<TokenText>& texts, size_t first,
                                   size_t without, int64_t size) {
  const auto usable = [&](size_t i) { return i != without && !texts[i].ids.empty(); };
  bool any = false;
  for (size_t i = 0; i < texts.size(); ++i) any = any || usable(i);
  SUTURE_CHECK(any, "no tokens in {} texts", texts.size());
  std::vector<int32_t> ids;
  for (size_t i = first % texts.size(); std::ssize(ids) < size; i = (i + 1) % texts.size()) {
    if (!usable(i)) continue;
    const std::vector<int32_t>& text = texts[i].ids;
    const int64_t taken = std::min(size - std::ssize(ids), std::ssize(text));
    ids.insert(ids.end(), text.begin(), text.begin() + taken);
  }
  return ids;
}

Result<std::vector<LengthPlan>> plan_transfer(const std::vector<TokenText>& texts,
                                              const PlanOptions& options) {
  const auto with_tokens =
      std::ranges::count_if(texts, [](const TokenText& text) { return !text.ids.empty(); });
  if (with_tokens < 2)
    return fail(ErrorCode::kInvalidArgument,
                "the control reads another text, and there are fewer than two", "--text",
                "give at least two different texts");
  std::vector<LengthPlan> plans;
  for (const int64_t tokens : options.lengths) plans.push_back(plan_length(texts, tokens, options));
  return plans;
}

}  // namespace suture
