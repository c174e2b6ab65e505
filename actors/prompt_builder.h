// Lays a launch's texts out as tokens: system prompt, documents, question. Text that users and
// documents bring is never parsed for control tokens.
#pragma once

#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "models/chat_format.h"
#include "models/tokenizer.h"

namespace suture {

// Encodes with one vocabulary and remembers the last texts: documents and system prompts come
// again with every request, for every model of the same vocabulary.
class EncodingCache {
 public:
  EncodingCache(std::shared_ptr<const Tokenizer> tokenizer, size_t max_texts)
      : tokenizer_(std::move(tokenizer)), max_texts_(max_texts) {}

  const std::vector<int32_t>& encode(std::string_view text, SpecialTokens special);
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  uint64_t hits() const { return hits_; }

 private:
  struct Entry {
    std::string key;  // text, and a mark for `special`
    std::vector<int32_t> ids;
  };
  std::shared_ptr<const Tokenizer> tokenizer_;
  size_t max_texts_;
  uint64_t hits_ = 0;
  std::list<Entry> recent_;  // most recent first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
};

class PromptBuilder {
 public:
  PromptBuilder(EncodingCache& cache, ChatFormat format)
      : cache_(cache), format_(std::move(format)) {}

  // Everything up to the user's question: system turn, start of the user turn, documents.
  // `system` empty: the format's default; no system turn at all if that is empty too.
  std::vector<int32_t> head(std::string_view system, const std::vector<std::string>& documents);
  // The question, the end of the user turn, the start of the answer.
  std::vector<int32_t> tail(std::string_view question);
  // The next turn: the end of the answer before it, the start of the user turn, and its tail.
  std::vector<int32_t> next_turn(std::string_view question);
  // Of a tail, the last ones, which come after the question.
  int64_t opening_tokens() { return std::ssize(tail("")); }
  const Tokenizer& tokenizer() const { return cache_.tokenizer(); }
  // What was answered, or a part of it, as text.
  std::vector<int32_t> answer(std::string_view text);

 private:
  void append(std::vector<int32_t>& ids, std::string_view text, SpecialTokens special);

  EncodingCache& cache_;
  ChatFormat format_;
};

}  // namespace suture
