// What an answer says: a number, a letter, a program. Plain functions of the text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/eval/eval_set.h"

namespace suture {

// The last number of a text in one spelling: "1,250.50" -> "1250.5", "-007" -> "-7".
std::optional<std::string> last_number(std::string_view text);

// The option that a text chooses, if it is clear which: the letter after the last "answer" or
// "答案", the letter at the start, or the only one that stands alone.
std::optional<size_t> chosen_option(std::string_view text, size_t options);

// The text up to the first line that is no part of a function's body: "def", "class", "if",
// "print", a comment or a code fence at the left margin.
std::string_view cut_completion(std::string_view completion);

// The program that judges what a model wrote: prompt, completion, test, check(entry_point). A code
// block that defines the function itself stands instead of the prompt's definition.
std::string code_program(const CodeItem& item, std::string_view generated);

}  // namespace suture
