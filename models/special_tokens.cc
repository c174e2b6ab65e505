#include "models/special_tokens.h"

#include <algorithm>
#include <tuple>

namespace suture {

SpecialTokenFinder::SpecialTokenFinder(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) {
    return std::tie(a.text, a.id) < std::tie(b.text, b.id);
  });
  const auto same_text = [](const Token& a, const Token& b) { return a.text == b.text; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same_text), tokens_.end());
}

std::vector<SpecialTokenFinder::Occurrence> SpecialTokenFinder::find_all(
    std::string_view text) const {
  std::vector<Occurrence> all;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    // The tokens that agree with the text so far are neighbours; each byte leaves fewer.
    auto first = tokens_.begin();
    auto last = tokens_.end();
    for (size_t depth = 0; first != last && begin + depth < text.size(); ++depth) {
      const auto byte = static_cast<uint8_t>(text[begin + depth]);
      const auto byte_of = [depth](const Token& token) {
        return static_cast<uint8_t>(token.text[depth]);
      };
      first = std::partition_point(first, last, [&](const Token& t) { return byte_of(t) < byte; });
      last = std::partition_point(first, last, [&](const Token& t) { return byte_of(t) == byte; });
      if (first != last && first->text.size() == depth + 1) {
        all.push_back({begin, depth + 1, first->id});
        ++first;
      }
    }
  }
  return all;
}

std::vector<SpecialTokenFinder::Occurrence> SpecialTokenFinder::find(std::string_view text) const {
  std::vector<Occurrence> all = find_all(text);
  std::sort(all.begin(), all.end(), [](const Occurrence& a, const Occurrence& b) {
    return std::tuple(b.length, a.id, a.begin) < std::tuple(a.length, b.id, b.begin);
  });
  std::vector<bool> taken(all.empty() ? 0 : text.size());
  std::vector<Occurrence> kept;
  for (const Occurrence& occurrence : all) {
    // Whatever was kept before is at least as long, so an overlap shows at one of the ends.
    const size_t end = occurrence.begin + occurrence.length;
    if (taken[occurrence.begin] || taken[end - 1]) continue;
    std::fill(taken.begin() + static_cast<std::ptrdiff_t>(occurrence.begin),
              taken.begin() + static_cast<std::ptrdiff_t>(end), true);
    kept.push_back(occurrence);
  }
  std::sort(kept.begin(), kept.end(),
            [](const Occurrence& a, const Occurrence& b) { return a.begin < b.begin; });
  return kept;
}

}  // namespace suture
