// Finds the known word that the user probably meant.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace suture {

// A candidate that `word` is the beginning of, else the one with the smallest edit distance
// (Levenshtein), or nothing when none is near: more than a third of the letters would change.
std::optional<std::string_view> nearest_word(std::string_view word,
                                             std::span<const std::string_view> candidates);

}  // namespace suture
