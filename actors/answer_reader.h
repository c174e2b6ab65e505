// The reading end of one answer: takes tokens from the ring, grants credit for more, shows text as
// it becomes whole, and stops the model where a stop string appears.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/answer.h"
#include "bus/token_ring.h"
#include "models/stop_strings.h"
#include "models/tokenizer.h"

namespace suture {

class AnswerReader {
 public:
  AnswerReader(std::shared_ptr<TokenRing> ring, const Tokenizer& tokenizer,
               std::vector<std::string> stops, std::function<void(std::string_view)> on_text,
               int64_t asked_ns);

  // Takes what comes within one slice. False when the producer has finished or is gone.
  bool read_slice();
  // What is in the ring already; the producer has stopped.
  void drain();
  // Fills text, token_ids and times; nothing comes after it.
  void finish(Answer& answer);

  // A stop string has come; the model has been told.
  bool stopped() const { return stops_.stopped(); }
  // What was shown after the last whole token: the part of a token before a stop string.
  const std::string& text_beyond_tokens() const { return text_beyond_tokens_; }

 private:
  void grant();
  void take(const RingToken& token);
  void emit(const std::string& text);
  void cut_tokens();

  std::shared_ptr<TokenRing> ring_;
  TokenRingReader tokens_;
  StreamingDecoder decoder_;
  StopMatcher stops_;
  std::function<void(std::string_view)> on_text_;
  int64_t asked_ns_;  // CLOCK_MONOTONIC; times count from here
  double first_token_seconds_ = 0;
  std::vector<int32_t> token_ids_;
  std::vector<size_t> text_ends_;  // [token_ids_] bytes of text that came out up to each token
  size_t text_bytes_ = 0;          // that came out, shown or not
  std::string text_;               // shown
  std::string text_beyond_tokens_;
};

}  // namespace suture
