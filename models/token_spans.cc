#include "models/token_spans.h"

#include <algorithm>
#include <string>

namespace suture {
namespace {

constexpr char kControl = '\0';  // stands for a control token, which no word contains

}  // namespace

std::vector<TokenSpan> spans_of_word(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                     std::string_view word) {
  std::string text;
  std::vector<size_t> ends;  // [ids] bytes of the text up to each
  for (const int32_t id : ids) {
    const std::string_view piece = tokenizer.piece(id);
    if (piece.empty()) text.push_back(kControl);
    text.append(piece);
    ends.push_back(text.size());
  }
  std::vector<TokenSpan> spans;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const auto first = std::ranges::upper_bound(ends, at) - ends.begin();
    const auto last = std::ranges::lower_bound(ends, at + word.size()) - ends.begin();
    if (!spans.empty() && first < spans.back().end)
      spans.back().end = std::max(spans.back().end, last + 1);
    else
      spans.push_back({first, last + 1});
  }
  return spans;
}

}  // namespace suture
