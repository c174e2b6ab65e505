#include "launcher/eval/answer_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace suture {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// ---- Numbers ----

// A comma at `at` separates thousands: exactly three digits follow it.
bool is_thousands_comma(std::string_view text, size_t at) {
  size_t digits = 0;
  while (at + 1 + digits < text.size() && is_digit(text[at + 1 + digits])) ++digits;
  return text[at] == ',' && digits == 3;
}

// The digits from `at` on, without commas; `at` moves behind them.
std::string read_digits(std::string_view text, size_t& at, bool commas) {
  std::string digits;
  for (; at < text.size(); ++at) {
    if (is_digit(text[at])) {
      digits.push_back(text[at]);
    } else if (!commas || !is_thousands_comma(text, at)) {
      break;
    }
  }
  return digits;
}

// A minus sign before `at` that is not the middle of "5-3".
bool is_negative(std::string_view text, size_t at) {
  if (at > 0 && text[at - 1] == '$') --at;
  if (at == 0 || text[at - 1] != '-') return false;
  return at == 1 || !(is_digit(text[at - 2]) || is_letter(text[at - 2]) || text[at - 2] == ')');
}

// `at` is the first digit; it moves behind the number.
std::string read_number(std::string_view text, size_t& at) {
  const bool negative = is_negative(text, at);
  std::string whole = read_digits(text, at, /*commas=*/true);
  std::string fraction;
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1]))
    fraction = read_digits(text, ++at, /*commas=*/false);
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));
  fraction.erase(fraction.find_last_not_of('0') + 1);
  const bool zero = whole == "0" && fraction.empty();
  return fmt::format("{}{}{}{}", negative && !zero ? "-" : "", whole, fraction.empty() ? "" : ".",
                     fraction);
}

// ---- Letters ----

// The option whose letter stands at `at`, with neither letter nor digit beside it.
std::optional<size_t> option_at(std::string_view text, size_t at, size_t options) {
  const auto is_word = [](char c) { return is_digit(c) || is_letter(c) || c == '\''; };
  const char c = text[at];
  if (c < 'A' || static_cast<size_t>(c - 'A') >= options) return std::nullopt;
  if (at > 0 && is_word(text[at - 1])) return std::nullopt;
  if (at + 1 < text.size() && is_word(text[at + 1])) return std::nullopt;
  return static_cast<size_t>(c - 'A');
}

std::optional<size_t> first_option(std::string_view text, size_t options) {
  for (size_t at = 0; at < text.size(); ++at)
    if (const auto option = option_at(text, at, options)) return option;
  return std::nullopt;
}

std::optional<size_t> only_option(std::string_view text, size_t options) {
  std::optional<size_t> only;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto option = option_at(text, at, options);
    if (option && only && *option != *only) return std::nullopt;
    if (option) only = option;
  }
  return only;
}

// What follows the last word that announces an answer; empty without one.
std::string_view after_announcement(std::string_view text) {
  size_t after = text.size();
  bool found = false;
  for (const std::string_view word : {"answer", "Answer", "ANSWER", "答案"}) {
    const size_t at = text.rfind(word);
    if (at == std::string_view::npos) continue;
    after = found ? std::max(after, at + word.size()) : at + word.size();
    found = true;
  }
  return text.substr(after);
}

// ---- Programs ----

// The first ``` block, without its fences; the whole text without one.
std::string_view code_block(std::string_view text) {
  const size_t fence = text.find("```");
  if (fence == std::string_view::npos) return text;
  const size_t start = text.find('\n', fence);
  if (start == std::string_view::npos) return text.substr(0, fence);
  const std::string_view block = text.substr(start + 1);
  return block.substr(0, block.find("```"));
}

// Where a line that begins with `word` begins.
size_t find_line(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    if (at == 0 || text[at - 1] == '\n') return at;
  return std::string_view::npos;
}

}  // namespace

std::optional<std::string> last_number(std::string_view text) {
  std::optional<std::string> last;
  for (size_t at = 0; at < text.size();) {
    if (is_digit(text[at])) {
      last = read_number(text, at);
    } else {
      ++at;
    }
  }
  return last;
}

std::optional<size_t> chosen_option(std::string_view text, size_t options) {
  if (const auto announced = first_option(after_announcement(text), options)) return announced;
  const size_t start =
      std::find_if(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); }) -
      text.begin();
  // "A dog", "I think": a letter that a word follows is a word itself.
  const bool alone =
      start + 2 >= text.size() || text[start + 1] != ' ' || !is_letter(text[start + 2]);
  if (start < text.size() && alone)
    if (const auto first = option_at(text, start, options)) return first;
  return only_option(text, options);
}

std::string_view cut_completion(std::string_view completion) {
  constexpr std::array<std::string_view, 7> kStops = {"\ndef ", "\nclass ", "\nif ",    "\nprint(",
                                                      "\n#",    "\n```",    "\nassert "};
  size_t end = completion.size();
  for (const std::string_view stop : kStops) end = std::min(end, completion.find(stop));
  return completion.substr(0, end);
}

std::string code_program(const CodeItem& item, std::string_view generated) {
  const std::string definition = fmt::format("def {}(", item.entry_point);
  const std::string_view block = code_block(generated);
  const size_t defined = find_line(item.prompt, definition);
  std::string program;
  if (find_line(block, definition) != std::string_view::npos && defined != std::string_view::npos) {
    // What the prompt imports and defines before its own function.
    program = fmt::format("{}\n{}", std::string_view(item.prompt).substr(0, defined), block);
  } else {
    program = fmt::format("{}{}", item.prompt, cut_completion(generated));
  }
  return fmt::format("{}\n{}\ncheck({})\n", program, item.test, item.entry_point);
}

}  // namespace suture
