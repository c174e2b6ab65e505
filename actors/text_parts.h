// A text of a conversation in parts: what is read as a prompt, and earlier answers. A row that is
// computed again gets the kernels that computed it first, so that its bits do not tell whether its
// K/V were kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace suture {

// Tokens [begin, end) of a text that a master generated.
struct AnswerRun {
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const AnswerRun&) const = default;
};

template <typename Inspector>
auto inspect(Inspector& f, AnswerRun& x) {
  return f(x.begin, x.end);
}

struct TextPart {
  int64_t end = 0;
  bool answered = false;

  bool operator==(const TextPart&) const = default;
};

// The part that begins at token `from` of a text of `size` tokens; from < size. `answers` in
// ascending order.
inline TextPart part_at(std::span<const AnswerRun> answers, int64_t from, int64_t size) {
  for (const AnswerRun& answer : answers) {
    if (answer.end <= from || answer.end <= answer.begin) continue;
    if (from < answer.begin) return {std::min(answer.begin, size), false};
    return {std::min(answer.end, size), true};
  }
  return {size, false};
}

}  // namespace suture
