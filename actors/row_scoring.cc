#include "actors/row_scoring.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace suture {
namespace {

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

}  // namespace

Result<RowScoring> RowScoring::create(LanguageModel& model, int64_t n_tokens, ScoreDetail detail) {
  const int32_t vocab_size = model.config().vocab_size;
  const auto watched = std::ssize(detail.watched);
  const bool known = std::ranges::all_of(
      detail.watched, [vocab_size](int32_t id) { return id >= 0 && id < vocab_size; });
  if (detail.top < 0 || detail.top > LogitsReader::kMostTop || watched % n_tokens != 0 || !known)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} best tokens (at most {}) and {} watched ones, ids below {}, for {} "
                            "tokens to score",
                            detail.top, LogitsReader::kMostTop, watched, vocab_size, n_tokens),
                "scoring");
  SUTURE_ASSIGN_OR_RETURN(LogitsReader reader,
                          LogitsReader::create(model.device(), model.stream(), vocab_size));
  return RowScoring(std::move(reader), std::move(detail), watched / n_tokens);
}

Status RowScoring::add(const float* logits, int32_t token) {
  SUTURE_ASSIGN_OR_RETURN(const float all, reader_.log_sum_exp(logits));
  SUTURE_ASSIGN_OR_RETURN(const float logit, reader_.read(logits + token));
  SUTURE_ASSIGN_OR_RETURN(const auto best, reader_.top(logits, std::max(1, detail_.top)));
  TokenScore score{.logprob_bits = bits(logit - all), .best = best.front().second <= logit};
  if (detail_.top > 0)
    for (const auto& [id, value] : best) {
      score.top.push_back(id);
      score.top_bits.push_back(bits(value - all));
    }
  SUTURE_CHECK(watched_each_ * (std::ssize(scores_) + 1) <= std::ssize(detail_.watched),
               "row {} of {} watched tokens, {} a row", scores_.size(), detail_.watched.size(),
               watched_each_);
  for (int64_t i = 0; i < watched_each_; ++i) {
    const int64_t at = std::ssize(scores_) * watched_each_ + i;
    SUTURE_ASSIGN_OR_RETURN(const float value,
                            reader_.read(logits + detail_.watched[static_cast<size_t>(at)]));
    score.watched_bits.push_back(bits(value - all));
  }
  scores_.push_back(std::move(score));
  return {};
}

}  // namespace suture
