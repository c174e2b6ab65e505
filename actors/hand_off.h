// How what one model answered is put to another as text.
#pragma once

#include <string>
#include <vector>

namespace suture {

// What others answered, in their order, as context of the question.
std::string handed_over(const std::vector<std::string>& answers);

// Context and question as one text; a context may be empty.
std::string with_context(const std::string& context, const std::string& question);

}  // namespace suture
