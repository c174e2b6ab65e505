// Lays out what one prefix slave reads: for all requests of a launch, or for one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/chat_turn.h"
#include "actors/coordinator.h"
#include "actors/prompt_builder.h"
#include "models/tokenizer.h"

namespace suture {

class SlavePrompts {
 public:
  // A slave of the master's vocabulary; `prompts` must outlive the object.
  SlavePrompts(PromptBuilder& prompts, std::string system)
      : prompts_(&prompts), system_(std::move(system)) {}
  // One of another vocabulary, with prompts of its own.
  SlavePrompts(std::shared_ptr<const Tokenizer> tokenizer, ChatFormat format, std::string system);

  // What the master reads before a question, in the slave's tokens.
  void set_master_head(const std::string& system, const std::vector<std::string>& documents) {
    master_head_ = prompts_->head(system, documents);
  }
  const Tokenizer& tokenizer() const { return prompts_->tokenizer(); }
  // The question in its own tokens; nothing where they are the master's.
  std::optional<std::vector<int32_t>> own_question(const std::string& question) const {
    if (own_ == nullptr) return std::nullopt;
    return own_->tail(question);
  }
  // The slave's system prompt and these documents.
  RequestText read(std::string slave, const std::vector<std::string>& documents) const;
  // A question after earlier turns, that follows `head`: all of them together in at most so many
  // tokens, if that can be had by leaving out the oldest turns.
  std::vector<int32_t> ask(std::vector<int32_t> head, std::span<const ChatTurn> turns,
                           const std::string& question, int64_t most_tokens) const;

 private:
  std::unique_ptr<EncodingCache> encodings_;  // of another vocabulary
  std::unique_ptr<PromptBuilder> own_;        // likewise
  PromptBuilder* prompts_;
  std::string system_;
  std::vector<int32_t> master_head_;
};

}  // namespace suture
