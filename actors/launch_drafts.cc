// The part of a launch that knows what slaves say by themselves as text.
#include <utility>

#include "actors/launch_state.h"

namespace suture {

void Launch::State::add_drafting(const std::string& text, Question& question) {
  const std::lock_guard lock(text_mutex);
  question.opening_tokens = prepared.prompts->opening_tokens();
  for (const ModelSpec& model : spec.models) {
    const auto prompts = prepared.slave_prompts.find(model.name);
    if (!model.drafts() || prompts == prepared.slave_prompts.end()) continue;
    if (auto ids = prompts->second.own_question(text))
      question.draft_questions.push_back({model.name, *std::move(ids)});
  }
}

std::vector<DraftedText> Launch::State::drafted_texts(std::vector<SlaveDraft> drafts) const {
  std::vector<DraftedText> texts;
  for (SlaveDraft& draft : drafts) {
    const auto tokenizer = prepared.draft_tokenizers.find(draft.slave);
    if (tokenizer == prepared.draft_tokenizers.end()) continue;
    DraftedText& text = texts.emplace_back();
    StreamingDecoder decoder(*tokenizer->second);
    for (const int32_t id : draft.token_ids) text.text += decoder.push(id);
    text.text += decoder.finish();
    text.slave = std::move(draft.slave);
    text.token_ids = std::move(draft.token_ids);
    text.seconds = draft.seconds;
  }
  return texts;
}

}  // namespace suture
