// Evaluation sets in JSON Lines: each line is an item, and its fields tell what kind it is
// (bench/evals/README.md lists the fields).
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "launcher/question_set.h"

namespace suture {

// Multiple choice: one of the options is right.
struct ChoiceItem {
  std::string passage;  // may be empty
  std::string question;
  std::vector<std::string> options;  // 2 to 26
  size_t answer = 0;                 // index of the right one
};

// Exact match of the last number of an answer.
struct NumberItem {
  std::string question;
  std::string number;  // as last_number() spells it
};

// A Python function to be completed, judged by running `test`, which defines check(candidate).
struct CodeItem {
  std::string prompt;  // the program up to the body of the function
  std::string entry_point;
  std::string canonical_solution;
  std::string test;
};

// One question about several documents, judged by the facts that the answer holds.
struct MultidocItem {
  std::string lang;  // "en", "zh"
  std::string kind;  // "fact", "multi-hop", "summary"
  std::vector<std::string> documents;
  std::string question;
  std::string answer;
  std::vector<ExpectedFact> expect;
};

// A text of which the first half is read, and the likelihood of the second half is taken.
struct TextItem {
  std::string read;
  std::string rest;  // neither is empty
};

using EvalTask = std::variant<ChoiceItem, NumberItem, CodeItem, MultidocItem, TextItem>;

struct EvalItem {
  std::string id;  // its own, or the file's name and the line: "gsm8k:17"
  EvalTask task;
};

struct EvalSet {
  std::string name;             // of the file, without ending
  std::vector<EvalItem> items;  // at least one, all of one kind, no id twice
};

// Errors name file, line and field. `path` may be anybody's file: its size is bounded.
Result<EvalSet> load_eval_set(const std::filesystem::path& path);

// "multiple-choice", "exact-match", "code", "multidoc", "text"
std::string_view task_kind_name(const EvalTask& task);

}  // namespace suture
