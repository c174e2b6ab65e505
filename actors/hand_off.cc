#include "actors/hand_off.h"

#include <fmt/format.h>

namespace suture {

std::string handed_over(const std::vector<std::string>& answers) {
  std::string text;
  for (const std::string& answer : answers)
    text += fmt::format("{}Another assistant answers: {}", text.empty() ? "" : "\n", answer);
  return text;
}

std::string with_context(const std::string& context, const std::string& question) {
  return context.empty() ? question : context + "\n\n" + question;
}

}  // namespace suture
