// Finds tokens that are written out in a text and must not be cut into pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace suture {

class SpecialTokenFinder {
 public:
  struct Token {
    std::string_view text;  // not empty; outlives the finder
    int32_t id = 0;
  };
  explicit SpecialTokenFinder(std::vector<Token> tokens);

  struct Occurrence {
    size_t begin = 0;  // in bytes
    size_t length = 0;
    int32_t id = 0;
  };
  // Occurrences in order that do not overlap. Of those that would, the longer token wins, then the
  // one with the lower id, then the one further left.
  std::vector<Occurrence> find(std::string_view text) const;
  // The largest position that no token lies across, whatever text follows: what find() says about
  // the text before it stays as it is.
  size_t stable_end(std::string_view text) const;

 private:
  // The longest token at `begin` of less than `below` bytes.
  std::optional<Occurrence> longest_at(std::string_view text, size_t begin, size_t below) const;
  template <typename OnToken>
  bool visit_tokens_at(std::string_view text, size_t begin, OnToken on_token) const;

  std::vector<Token> tokens_;  // sorted by text, no text twice
  size_t longest_ = 0;         // bytes of the longest token
};

}  // namespace suture
