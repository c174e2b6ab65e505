#include "actors/slave_prompts.h"

#include <iterator>
#include <utility>

#include "fusion/merge_plan.h"

namespace suture {
namespace {

constexpr size_t kCachedTexts = 8;  // documents come again, but not many at a time

}  // namespace

SlavePrompts::SlavePrompts(std::shared_ptr<const Tokenizer> tokenizer, ChatFormat format,
                           std::string system)
    : encodings_(std::make_unique<EncodingCache>(std::move(tokenizer), kCachedTexts)),
      own_(std::make_unique<PromptBuilder>(*encodings_, std::move(format))),
      prompts_(own_.get()),
      system_(std::move(system)) {}

RequestText SlavePrompts::read(std::string slave, const std::vector<std::string>& documents) const {
  RequestText text{.slave = std::move(slave), .token_ids = prompts_->head(system_, documents)};
  text.shared_tokens = common_prefix(text.token_ids, master_head_);
  return text;
}

std::vector<int32_t> SlavePrompts::ask(std::vector<int32_t> head, std::span<const ChatTurn> turns,
                                       const std::string& question, int64_t most_tokens) const {
  const auto size_of = [this](const ChatTurn& turn) {
    return std::ssize(prompts_->next_turn(turn.question)) +
           std::ssize(prompts_->answer(turn.answer));
  };
  int64_t room = most_tokens - std::ssize(head) - std::ssize(prompts_->next_turn(question));
  size_t first = turns.size();
  while (first > 0 && (room -= size_of(turns[first - 1])) >= 0) --first;
  bool begun = false;
  const auto add = [&](const std::vector<int32_t>& ids) {
    head.insert(head.end(), ids.begin(), ids.end());
  };
  const auto add_question = [&](const std::string& text) {
    add(std::exchange(begun, true) ? prompts_->next_turn(text) : prompts_->tail(text));
  };
  for (const ChatTurn& turn : turns.subspan(first)) {
    add_question(turn.question);
    add(prompts_->answer(turn.answer));
  }
  add_question(question);
  return head;
}

}  // namespace suture
