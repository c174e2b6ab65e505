// The symbols of one word in a row, whose neighbours are merged in pairs, the best pair first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

namespace suture {

// What two neighbours become. The smaller priority goes first.
template <typename Priority>
struct SymbolMerge {
  Priority priority;
  int32_t result;
};

class SymbolRow {
 public:
  explicit SymbolRow(size_t bytes) : nodes_(bytes) {}

  // The symbol of the next `length` (1 or more) bytes of the word.
  void append(int32_t symbol, size_t length) {
    nodes_[end_] = {symbol, last_, end_ + length};
    last_ = end_;
    end_ += length;
  }

  // find(left symbol, right symbol, begin, end) gives an optional SymbolMerge<Priority> for two
  // neighbours that take the bytes from begin to end. Of equally good pairs the leftmost goes
  // first. n log n in the number of symbols.
  template <typename Priority, typename Find>
  void merge(Find find) {
    struct Candidate {
      Priority priority;
      size_t left;
      size_t end;
      int32_t result;
      bool operator>(const Candidate& other) const {
        return std::tie(priority, left) > std::tie(other.priority, other.left);
      }
    };
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
    const auto consider = [&](size_t left) {
      if (left == kNone || nodes_[left].next == end_) return;
      const Node& right = nodes_[nodes_[left].next];
      const auto merge = find(nodes_[left].symbol, right.symbol, left, right.next);
      if (merge) candidates.push({merge->priority, left, right.next, merge->result});
    };
    for (size_t at = 0; at < end_; at = nodes_[at].next) consider(at);
    while (!candidates.empty()) {
      const Candidate best = candidates.top();
      candidates.pop();
      Node& left = nodes_[best.left];
      // Symbols only grow: a pair still ends where it did unless either side has been merged.
      if (left.next == kMergedAway || left.next == end_) continue;
      if (nodes_[left.next].next != best.end) continue;
      nodes_[left.next].next = kMergedAway;
      left = {best.result, left.previous, best.end};
      if (best.end != end_) nodes_[best.end].previous = best.left;
      consider(left.previous);
      consider(best.left);
    }
  }

  // visit(symbol, begin, end) for each symbol from left to right.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t at = 0; at < end_; at = nodes_[at].next)
      visit(nodes_[at].symbol, at, nodes_[at].next);
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);
  static constexpr size_t kMergedAway = 0;

  struct Node {
    int32_t symbol = 0;
    size_t previous = kNone;    // where the symbol before begins
    size_t next = kMergedAway;  // where this one ends and the next begins
  };
  std::vector<Node> nodes_;  // [bytes]; a symbol's node is at its first byte
  size_t last_ = kNone;
  size_t end_ = 0;
};

}  // namespace suture
