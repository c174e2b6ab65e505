// Questions with the facts that a right answer holds, from a JSON Lines file:
//   {"question": "When was the tunnel opened?", "expect": ["1911", ["12 km", "twelve kilometres"]]}
// A fact is a text or a list of texts any of which will do.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace suture {

struct ExpectedFact {
  std::vector<std::string> spellings;  // at least one; the first names the fact
};

struct QuestionItem {
  std::string question;
  std::vector<ExpectedFact> expect;  // may be empty
};

// Errors name file, line and field.
Result<std::vector<QuestionItem>> load_questions(const std::filesystem::path& path);

// The text holds one of the spellings; ASCII letters match in either case.
bool holds_fact(std::string_view answer, const ExpectedFact& fact);

}  // namespace suture
