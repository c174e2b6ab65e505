#include "models/prompt_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace suture {

Result<PromptReader> PromptReader::create(Forward& forward, int64_t vocab_size, PrefillArgs args) {
  if (args.token_ids.empty() || args.cache == nullptr)
    return fail(ErrorCode::kInvalidArgument, "a prompt needs a token and a K/V cache", "prefill");
  if (args.first_logits_row < 0 || args.first_logits_row > std::ssize(args.token_ids))
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("logits from row {} on, of {} rows", args.first_logits_row,
                            args.token_ids.size()),
                "prefill");
  return PromptReader(forward, vocab_size, std::move(args));
}

PromptReader::PromptReader(Forward& forward, int64_t vocab_size, PrefillArgs args)
    : forward_(&forward), vocab_size_(vocab_size), args_(std::move(args)) {}

Result<const float*> PromptReader::step(int64_t grid) {
  if (grid < 1 || grid > kPrefillGrid || done())
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a step on a grid of {} with {} tokens to read", grid,
                            std::ssize(args_.token_ids) - next_),
                "prefill");
  const int64_t room = grid - args_.cache->size() % grid;
  const int64_t rows = std::min(room, std::ssize(args_.token_ids) - next_);
  SUTURE_ASSIGN_OR_RETURN(const float* logits, run_chunk(rows));
  if (args_.on_logits) {
    SUTURE_ASSIGN_OR_RETURN(logits, report_rows(rows));
  }
  next_ += rows;
  return done() ? logits : nullptr;
}

// Returns the last row's logits if it is the prompt's last and nobody asks for all rows.
Result<const float*> PromptReader::run_chunk(int64_t rows) {
  const int64_t n_left = std::ssize(args_.token_ids) - next_;
  const int64_t first_entry = args_.cache->size();
  if (args_.on_chunk) SUTURE_RETURN_IF_ERROR(args_.on_chunk(first_entry, first_entry + rows));
  SequenceRows chunk;
  chunk.token_ids = args_.token_ids.subspan(static_cast<size_t>(next_), static_cast<size_t>(rows));
  chunk.cache = args_.cache;
  chunk.plan = args_.plan;
  chunk.gate = args_.gate;
  chunk.observation = args_.observation;
  // All chunks of a prompt are rotated as if it had been read in one go.
  const int64_t last_entry = first_entry + n_left - 1;
  chunk.total_length =
      (args_.plan == nullptr ? last_entry : position_of(*args_.plan, last_entry)) + 1;
  chunk.first_logits_row = rows;
  if (args_.on_logits)
    chunk.first_result_row = std::max<int64_t>(0, args_.first_logits_row - next_);
  else if (rows == n_left && wants_logits())
    chunk.first_logits_row = rows - 1;
  return forward_->run(chunk, args_.path);
}

Result<const float*> PromptReader::report_rows(int64_t rows) {
  const float* last = nullptr;
  const int64_t first = std::max<int64_t>(0, args_.first_logits_row - next_);
  for (int64_t row = first; row < rows; row += Forward::kMaxLogitsRows) {
    const int64_t n = std::min(Forward::kMaxLogitsRows, rows - row);
    SUTURE_ASSIGN_OR_RETURN(const float* logits, forward_->logits(row, n));
    for (int64_t i = 0; i < n; ++i)
      SUTURE_RETURN_IF_ERROR(args_.on_logits(next_ + row + i, logits + i * vocab_size_));
    last = logits + (n - 1) * vocab_size_;
  }
  return last;
}

}  // namespace suture
