// How much a master looks at each of those whose K/V it sees, and at words of theirs: shares of the
// softmax of its attention, layer by layer, as means over heads and over the tokens it chose.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace suture {

struct AttentionShares {
  int64_t tokens = 0;                     // that the means are over; 0 = nobody asked
  std::vector<std::string> readers = {};  // names of models: the master, then its slaves
  std::vector<std::string> keywords = {};
  int64_t n_layers = 0;
  // [topics][n_layers][readers] as bit patterns of float32, for CAF's sake (SourceLink). Topic 0 is
  // all that a reader brings, 1 + k the k-th keyword's occurrences in it.
  std::vector<uint32_t> bits = {};

  bool empty() const { return tokens == 0; }
  size_t topics() const { return 1 + keywords.size(); }
  size_t index(size_t topic, size_t layer, size_t reader) const {
    return (topic * static_cast<size_t>(n_layers) + layer) * readers.size() + reader;
  }
  double share(size_t topic, size_t layer, size_t reader) const {
    return std::bit_cast<float>(bits[index(topic, layer, reader)]);
  }
  void set_share(size_t topic, size_t layer, size_t reader, double share) {
    bits[index(topic, layer, reader)] = std::bit_cast<uint32_t>(static_cast<float>(share));
  }
  // Over all layers.
  double mean(size_t topic, size_t reader) const;

  bool operator==(const AttentionShares&) const = default;
};

template <typename Inspector>
auto inspect(Inspector& f, AttentionShares& x) {
  return f(x.tokens, x.readers, x.keywords, x.n_layers, x.bits);
}

// From another process: kCorrupt unless every share has its place.
Status check(const AttentionShares& shares);

// The means over the tokens of both. kCorrupt unless they are of the same models and keywords.
Status add(AttentionShares& into, const AttentionShares& more);

}  // namespace suture
