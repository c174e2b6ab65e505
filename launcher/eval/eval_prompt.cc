#include "launcher/eval/eval_prompt.h"

#include <fmt/format.h>

#include <string_view>

namespace suture {
namespace {

// The words around a question.
struct Wording {
  std::string_view question, answer;
  std::string_view gap;  // between "answer" and what follows it
  std::string_view choose, calculate, from_documents, go_on;
};

constexpr Wording kEnglish = {
    "Question: ",
    "Answer:",
    " ",
    "Answer with the letter of the right option.",
    "Work it out step by step. End with a line that says \"Answer: \" and the number.",
    "Answer briefly, from the documents.",
    "Go on with this text:",
};

constexpr Wording kChinese = {
    "问题：",
    "答案：",
    "",
    "请只回答正确选项的字母。",
    "请一步一步计算，最后一行写“答案：”和这个数。",
    "请根据文档简要回答。",
    "请接着写下去：",
};

// A character of the block U+4E00 to U+9FFF: three bytes, the first E4 to E9. (Those of E4 B8
// downwards are symbols of the I Ching and rare characters, which say as much.)
bool is_chinese(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0xE4 && static_cast<unsigned char>(c) <= 0xE9) return true;
  return false;
}

const Wording& wording(std::string_view question) {
  return is_chinese(question) ? kChinese : kEnglish;
}

std::string lettered_options(const ChoiceItem& item) {
  std::string lines;
  for (size_t i = 0; i < item.options.size(); ++i)
    lines += fmt::format("{}. {}\n", option_letter(i), item.options[i]);
  return lines;
}

// Passage and question; the options follow, or the answer.
std::string opening(const ChoiceItem& item) {
  const std::string_view gap = item.passage.empty() ? "" : "\n\n";
  return fmt::format("{}{}{}{}\n", item.passage, gap, wording(item.question).question,
                     item.question);
}

struct QuestionText {
  std::string operator()(const ChoiceItem& item) const {
    return fmt::format("{}\n{}{}", item.question, lettered_options(item),
                       wording(item.question).choose);
  }
  std::string operator()(const NumberItem& item) const {
    return fmt::format("{}\n\n{}", item.question, wording(item.question).calculate);
  }
  std::string operator()(const CodeItem& item) const {
    return fmt::format(
        "Complete this Python function. Answer with the whole function in one code block.\n\n"
        "```python\n{}{}```",
        item.prompt, item.prompt.ends_with('\n') ? "" : "\n");
  }
  std::string operator()(const MultidocItem& item) const {
    return fmt::format("{}\n{}", item.question, wording(item.question).from_documents);
  }
  std::string operator()(const TextItem& item) const {
    return fmt::format("{}\n\n{}", wording(item.read).go_on, item.read);
  }
};

struct ContextText {
  std::string operator()(const ChoiceItem& item) const { return item.passage; }
  std::string operator()(const NumberItem&) const { return {}; }
  std::string operator()(const CodeItem&) const { return {}; }
  std::string operator()(const TextItem&) const { return {}; }
  std::string operator()(const MultidocItem& item) const {
    return fmt::format("{}", fmt::join(item.documents, "\n\n"));
  }
};

}  // namespace

ChoicePrompt choice_by_letter(const ChoiceItem& item) {
  const Wording& words = wording(item.question);
  ChoicePrompt prompt{opening(item) + lettered_options(item) + std::string(words.answer), {}};
  for (size_t i = 0; i < item.options.size(); ++i)
    prompt.continuations.push_back(fmt::format("{}{}", words.gap, option_letter(i)));
  return prompt;
}

ChoicePrompt choice_by_text(const ChoiceItem& item) {
  const Wording& words = wording(item.question);
  ChoicePrompt prompt{opening(item) + std::string(words.answer), {}};
  for (const std::string& option : item.options)
    prompt.continuations.push_back(fmt::format("{}{}", words.gap, option));
  return prompt;
}

std::string question_text(const EvalTask& task) { return std::visit(QuestionText(), task); }

std::string context_text(const EvalTask& task) { return std::visit(ContextText(), task); }

char option_letter(size_t option) { return static_cast<char>('A' + option); }

}  // namespace suture
