// What a model is asked about an item, in the language of the item.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/eval/eval_set.h"

namespace suture {

// Every continuation is scored right after `text`; the most likely one is the answer.
struct ChoicePrompt {
  std::string text;
  std::vector<std::string> continuations;  // one per option, in their order
};

// The options are listed with letters; continuations are the letters: " A", " B".
ChoicePrompt choice_by_letter(const ChoiceItem& item);

// The options are not listed; continuations are their texts. Texts differ in length, so their
// likelihoods are compared per token or per byte.
ChoicePrompt choice_by_text(const ChoiceItem& item);

// What a model is asked that answers in words of its own. Without a multidoc item's documents.
std::string question_text(const EvalTask& task);

// The text that stands before the question: passage or documents, blank lines between; may be
// empty.
std::string context_text(const EvalTask& task);

// "A" for 0
char option_letter(size_t option);

}  // namespace suture
