#include "actors/slave_prompts.h"

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

}  // namespace suture
