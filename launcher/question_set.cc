#include "launcher/question_set.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/text_file.h"

namespace suture {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

std::string lower_ascii(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lowered;
}

Result<ExpectedFact> read_fact(const nlohmann::json& value, const std::string& where) {
  ExpectedFact fact;
  const nlohmann::json list = value.is_array() ? value : nlohmann::json::array({value});
  for (const nlohmann::json& spelling : list) {
    if (!spelling.is_string() || spelling.get<std::string>().empty())
      return fail(ErrorCode::kInvalidArgument, "a fact is a text or a list of texts", where);
    fact.spellings.push_back(spelling.get<std::string>());
  }
  if (fact.spellings.empty())
    return fail(ErrorCode::kInvalidArgument, "a fact needs at least one spelling", where);
  return fact;
}

Result<QuestionItem> read_item(const std::string& line, const std::string& where) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("question") || !json["question"].is_string())
    return fail(ErrorCode::kInvalidArgument,
                "expected {\"question\": TEXT, \"expect\": [FACT, ...]}", where);
  QuestionItem item;
  item.question = json["question"].get<std::string>();
  const auto expect = json.find("expect");
  if (expect == json.end()) return item;
  SUTURE_ASSIGN_OR_RETURN(item.expect, read_facts(*expect, where));
  return item;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number at the edge of [begin, end) goes on outside of it: "1[911]", "1,[911]", "[12].5".
bool cuts_number(std::string_view text, size_t begin, size_t end) {
  const auto joins = [](char c) { return c == ',' || c == '.'; };
  const bool before = begin > 0 && is_digit(text[begin]) &&
                      (is_digit(text[begin - 1]) ||
                       (begin > 1 && joins(text[begin - 1]) && is_digit(text[begin - 2])));
  const bool after = end < text.size() && is_digit(text[end - 1]) &&
                     (is_digit(text[end]) ||
                      (end + 1 < text.size() && joins(text[end]) && is_digit(text[end + 1])));
  return before || after;
}

bool holds_spelling(std::string_view text, std::string_view spelling) {
  for (size_t at = text.find(spelling); at != std::string_view::npos;
       at = text.find(spelling, at + 1))
    if (!cuts_number(text, at, at + spelling.size())) return true;
  return false;
}

}  // namespace

Result<std::vector<ExpectedFact>> read_facts(const nlohmann::json& list, const std::string& where) {
  if (!list.is_array())
    return fail(ErrorCode::kInvalidArgument, "\"expect\" is a list of facts", where);
  std::vector<ExpectedFact> facts;
  for (const nlohmann::json& value : list) {
    SUTURE_ASSIGN_OR_RETURN(ExpectedFact fact, read_fact(value, where));
    facts.push_back(std::move(fact));
  }
  return facts;
}

Result<std::vector<QuestionItem>> load_questions(const std::filesystem::path& path) {
  SUTURE_ASSIGN_OR_RETURN(const auto lines, read_text_lines(path, kMaxFileBytes));
  std::vector<QuestionItem> items;
  for (const TextLine& line : lines) {
    SUTURE_ASSIGN_OR_RETURN(items.emplace_back(), read_item(line.text, line.where));
  }
  if (items.empty())
    return fail(ErrorCode::kInvalidArgument, "no questions in the file", path.string());
  return items;
}

bool holds_fact(std::string_view answer, const ExpectedFact& fact) {
  const std::string text = lower_ascii(answer);
  return std::ranges::any_of(fact.spellings, [&](const std::string& spelling) {
    return holds_spelling(text, lower_ascii(spelling));
  });
}

}  // namespace suture
