#include "launcher/eval/eval_keywords.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <variant>

#include "launcher/eval/eval_prompt.h"
#include "launcher/text_file.h"
#include "launcher/topology.h"

namespace suture {
namespace {

bool holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

bool item_holds(const EvalItem& item, std::string_view word) {
  if (holds(context_text(item.task), word) || holds(question_text(item.task), word)) return true;
  const auto* choice = std::get_if<ChoiceItem>(&item.task);
  return choice != nullptr && std::ranges::any_of(choice->options, [&](const std::string& option) {
           return holds(option, word);
         });
}

bool model_reads(const ModelSpec& model, std::string_view word) {
  if (model.system && holds(*model.system, word)) return true;
  return std::ranges::any_of(model.documents, [&](const std::filesystem::path& file) {
    const auto text = read_text_file(file, kMaxDocumentBytes);
    return text && holds(*text, word);
  });
}

bool occurs(std::string_view word, const std::vector<EvalSet>& sets, const LaunchSpec& topology) {
  for (const EvalSet& set : sets)
    for (const EvalItem& item : set.items)
      if (item_holds(item, word)) return true;
  return std::ranges::any_of(topology.models,
                             [&](const ModelSpec& model) { return model_reads(model, word); });
}

}  // namespace

Status check_keywords(const std::vector<std::string>& keywords, const std::vector<EvalSet>& sets,
                      const LaunchSpec& topology) {
  for (const std::string& word : keywords)
    if (!occurs(word, sets, topology))
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("the keyword '{}' occurs in no item and in no text of the topology", word),
          "--keyword", "write it as the text does, letter by letter");
  return {};
}

}  // namespace suture
