#include "models/special_tokens.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace suture {

SpecialTokenFinder::SpecialTokenFinder(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) {
    return std::tie(a.text, a.id) < std::tie(b.text, b.id);
  });
  const auto same_text = [](const Token& a, const Token& b) { return a.text == b.text; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same_text), tokens_.end());
  for (const Token& token : tokens_) longest_ = std::max(longest_, token.text.size());
}

// Calls on_token for each token that stands at `begin`, the shortest first; true if the text ends
// inside another one.
template <typename OnToken>
bool SpecialTokenFinder::visit_tokens_at(std::string_view text, size_t begin,
                                         OnToken on_token) const {
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
    if (first != last && first->text.size() == depth + 1) on_token(*first++);
  }
  return first != last;
}

std::optional<SpecialTokenFinder::Occurrence> SpecialTokenFinder::longest_at(std::string_view text,
                                                                             size_t begin,
                                                                             size_t below) const {
  std::optional<Occurrence> longest;
  visit_tokens_at(text, begin, [&](const Token& token) {
    if (token.text.size() < below) longest = {begin, token.text.size(), token.id};
  });
  return longest;
}

std::vector<SpecialTokenFinder::Occurrence> SpecialTokenFinder::find(std::string_view text) const {
  const auto worse = [](const Occurrence& a, const Occurrence& b) {
    return std::tuple(b.length, a.id, a.begin) > std::tuple(a.length, b.id, b.begin);
  };
  // One occurrence for each place, so that long runs need little memory: a shorter one follows
  // where the longest does not fit.
  std::vector<Occurrence> candidates;
  for (size_t begin = 0; begin < text.size(); ++begin)
    if (const auto longest = longest_at(text, begin, longest_ + 1)) candidates.push_back(*longest);
  std::priority_queue best(worse, std::move(candidates));
  std::vector<bool> taken(best.empty() ? 0 : text.size());
  std::vector<Occurrence> kept;
  while (!best.empty()) {
    const Occurrence occurrence = best.top();
    best.pop();
    // Whatever was kept before is at least as long, so an overlap shows at one of the ends.
    const size_t end = occurrence.begin + occurrence.length;
    if (taken[occurrence.begin]) continue;
    if (taken[end - 1]) {
      const auto shorter = longest_at(text, occurrence.begin, occurrence.length);
      if (shorter) best.push(*shorter);
      continue;
    }
    std::fill(taken.begin() + static_cast<std::ptrdiff_t>(occurrence.begin),
              taken.begin() + static_cast<std::ptrdiff_t>(end), true);
    kept.push_back(occurrence);
  }
  std::sort(kept.begin(), kept.end(),
            [](const Occurrence& a, const Occurrence& b) { return a.begin < b.begin; });
  return kept;
}

size_t SpecialTokenFinder::stable_end(std::string_view text) const {
  // Each round goes back to the start of the first token across `end`: none can lie across before.
  size_t end = text.size();
  for (bool moved = true; moved && end > 0;) {
    moved = false;
    for (size_t begin = end - std::min(end, longest_); begin < end && !moved; ++begin) {
      size_t reach = begin;
      const auto extend = [&](const Token& token) { reach = begin + token.text.size(); };
      if (visit_tokens_at(text, begin, extend)) reach = std::string_view::npos;
      moved = reach > end;
      if (moved) end = begin;
    }
  }
  return end;
}

}  // namespace suture
