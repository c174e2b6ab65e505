#include "actors/prompt_builder.h"

#include <utility>

namespace suture {

const std::vector<int32_t>& EncodingCache::encode(std::string_view text, SpecialTokens special) {
  std::string key(text);
  key.push_back(special == SpecialTokens::kParse ? 'p' : 't');
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    ++hits_;
    recent_.splice(recent_.begin(), recent_, found->second);
    return recent_.front().ids;
  }
  recent_.push_front({std::move(key), tokenizer_->encode(text, special)});
  by_key_[recent_.front().key] = recent_.begin();
  if (recent_.size() > max_texts_) {
    by_key_.erase(recent_.back().key);
    recent_.pop_back();
  }
  return recent_.front().ids;
}

void PromptBuilder::append(std::vector<int32_t>& ids, std::string_view text,
                           SpecialTokens special) {
  if (text.empty()) return;
  const std::vector<int32_t>& encoded = cache_.encode(text, special);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
}

std::vector<int32_t> PromptBuilder::head(std::string_view system,
                                         const std::vector<std::string>& documents) {
  std::vector<int32_t> ids;
  const Vocabulary& vocabulary = cache_.tokenizer().vocabulary();
  const bool begins = vocabulary.add_bos && vocabulary.bos_id;
  if (begins) ids.push_back(*vocabulary.bos_id);
  const std::string_view text = system.empty() ? format_.default_system : system;
  if (format_.system_in_user) append(ids, format_.user_open, SpecialTokens::kParse);
  if (!text.empty() || format_.system_always) {
    append(ids, format_.system_open, SpecialTokens::kParse);
    append(ids, text, SpecialTokens::kAsText);
    append(ids, format_.system_close, SpecialTokens::kParse);
  }
  if (!format_.system_in_user) append(ids, format_.user_open, SpecialTokens::kParse);
  // Pieces from a topology may begin with BOS themselves.
  if (begins && ids.size() > 1 && ids[1] == ids[0]) ids.erase(ids.begin());
  for (const std::string& document : documents) {
    append(ids, document, SpecialTokens::kAsText);
    append(ids, "\n\n", SpecialTokens::kAsText);
  }
  return ids;
}

std::vector<int32_t> PromptBuilder::tail(std::string_view question) {
  std::vector<int32_t> ids;
  append(ids, question, SpecialTokens::kAsText);
  append(ids, format_.user_close, SpecialTokens::kParse);
  append(ids, format_.assistant_open, SpecialTokens::kParse);
  return ids;
}

std::vector<int32_t> PromptBuilder::next_turn(std::string_view question) {
  std::vector<int32_t> ids;
  append(ids, format_.assistant_close, SpecialTokens::kParse);
  append(ids, format_.user_open, SpecialTokens::kParse);
  const std::vector<int32_t> rest = tail(question);
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

std::vector<int32_t> PromptBuilder::answer(std::string_view text) {
  std::vector<int32_t> ids;
  append(ids, text, SpecialTokens::kAsText);
  return ids;
}

}  // namespace suture
