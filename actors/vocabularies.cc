#include "actors/vocabularies.h"

#include <fmt/format.h>

namespace suture {
namespace {

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const Checkpoint& checkpoint) {
  SUTURE_ASSIGN_OR_RETURN(Vocabulary vocabulary, checkpoint.vocabulary());
  return Tokenizer::create(std::move(vocabulary));
}

}  // namespace

Result<Vocabularies> Vocabularies::load(
    const Checkpoint& own, const std::map<std::string, std::filesystem::path>& others) {
  Vocabularies vocabularies;
  if (others.empty()) return vocabularies;
  SUTURE_ASSIGN_OR_RETURN(vocabularies.own_, load_tokenizer(own));
  for (const auto& [process, path] : others) {
    SUTURE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::open(path));
    SUTURE_ASSIGN_OR_RETURN(vocabularies.others_[process], load_tokenizer(*checkpoint));
  }
  return vocabularies;
}

Result<const Tokenizer*> Vocabularies::own() const {
  if (own_ == nullptr) return fail(ErrorCode::kNotFound, "the own vocabulary is not loaded");
  return own_.get();
}

Result<const Tokenizer*> Vocabularies::of(const std::string& process) const {
  const auto found = others_.find(process);
  if (found == others_.end())
    return fail(ErrorCode::kNotFound, fmt::format("the vocabulary of '{}' is not loaded", process));
  return found->second.get();
}

}  // namespace suture
