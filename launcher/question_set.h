// Questions with the facts that a right answer holds, from a JSON Lines file:
//   {"question": "When was the tunnel opened?", "expect": ["1911", ["12 km", "twelve kilometres"]]}
// A fact is a text or a list of texts any of which will do.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
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

// The list of facts under "expect". `where` names the place in errors.
Result<std::vector<ExpectedFact>> read_facts(const nlohmann::json& list, const std::string& where);

// The text holds one of the spellings; ASCII letters match in either case, and a number only as a
// whole: "1911" does not hold "11".
bool holds_fact(std::string_view answer, const ExpectedFact& fact);

}  // namespace suture
