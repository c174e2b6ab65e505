#include "launcher/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace suture {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // distances from a[0..i] to every prefix of b
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string_view> nearest_word(std::string_view word,
                                             std::span<const std::string_view> candidates) {
  constexpr size_t kLongestWord = 100;  // longer ones are no slip of the finger
  if (word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string_view> best;
  size_t best_distance = 0;
  for (std::string_view candidate : candidates) {
    const bool begins = word.size() >= 3 && candidate.starts_with(word);  // cut short
    const size_t distance = begins ? 1 : edit_distance(word, candidate);
    if (!begins && distance * 3 > std::max(word.size(), candidate.size()) + 2) continue;
    if (best && distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

}  // namespace suture
