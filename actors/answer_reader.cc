#include "actors/answer_reader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/trace_log.h"

namespace suture {
namespace {

constexpr std::chrono::milliseconds kRingSlice{100};  // then look whether the request has ended
// Tokens the master may be ahead of what was read from the ring.
constexpr uint64_t kCreditWindow = 32;

}  // namespace

AnswerReader::AnswerReader(std::shared_ptr<TokenRing> ring, const Tokenizer& tokenizer,
                           std::vector<std::string> stops,
                           std::function<void(std::string_view)> on_text, int64_t asked_ns)
    : ring_(std::move(ring)),
      tokens_(ring_),
      decoder_(tokenizer),
      stops_(std::move(stops)),
      on_text_(std::move(on_text)),
      asked_ns_(asked_ns) {
  grant();
}

bool AnswerReader::read_slice() {
  const auto next = tokens_.wait_next(deadline_in(kRingSlice));
  if (!next) return next.error().code == ErrorCode::kTimeout;
  if (!next->has_value()) return false;
  take(**next);
  if (!stopped()) grant();
  return true;
}

void AnswerReader::drain() {
  while (true) {
    const auto next = tokens_.try_next();
    if (!next || !next->has_value()) return;
    take(**next);
  }
}

void AnswerReader::finish(Answer& answer) {
  emit(decoder_.finish());
  if (const std::string rest = stops_.finish(); !rest.empty()) {
    text_ += rest;
    on_text_(rest);
  }
  if (stopped()) cut_tokens();
  answer.text = std::move(text_);
  answer.token_ids = std::move(token_ids_);
  answer.first_token_seconds = first_token_seconds_;
  answer.seconds = seconds_since(asked_ns_);
}

void AnswerReader::grant() {
  ring_->grant(std::min<uint64_t>(tokens_.cursor() + kCreditWindow, ring_->capacity()));
}

void AnswerReader::take(const RingToken& token) {
  if (stopped()) return;  // the model was ahead
  if (token_ids_.empty()) first_token_seconds_ = seconds_since(asked_ns_);
  token_ids_.push_back(token.id);
  emit(decoder_.push(token.id));
  text_ends_.push_back(text_bytes_);
  if (stopped()) ring_->cancel();
}

void AnswerReader::emit(const std::string& text) {
  text_bytes_ += text.size();
  const std::string shown = stops_.push(text);
  if (shown.empty()) return;
  text_ += shown;
  on_text_(shown);
}

// Keeps the tokens that lie before the stop string whole. One that ends there without having given
// text may hold the beginning of a character of the stop string, so it goes too.
void AnswerReader::cut_tokens() {
  const auto past = std::ranges::upper_bound(text_ends_, text_.size());
  auto kept = static_cast<size_t>(past - text_ends_.begin());
  const auto end_of = [&](size_t tokens) { return tokens == 0 ? 0 : text_ends_[tokens - 1]; };
  while (kept > 0 && end_of(kept) == end_of(kept - 1)) --kept;
  text_beyond_tokens_ = text_.substr(end_of(kept));
  token_ids_.resize(kept);
}

}  // namespace suture
