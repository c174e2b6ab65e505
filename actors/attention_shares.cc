#include "actors/attention_shares.h"

#include <fmt/format.h>

#include <cmath>

namespace suture {
namespace {

constexpr int64_t kMaxLayers = 4096;

}  // namespace

double AttentionShares::mean(size_t topic, size_t reader) const {
  double sum = 0;
  for (size_t layer = 0; layer < static_cast<size_t>(n_layers); ++layer)
    sum += share(topic, layer, reader);
  return n_layers == 0 ? 0 : sum / static_cast<double>(n_layers);
}

Status check(const AttentionShares& shares) {
  if (shares.empty()) return {};
  const bool possible = shares.tokens > 0 && 0 < shares.n_layers && shares.n_layers <= kMaxLayers &&
                        shares.bits.size() == shares.index(shares.topics(), 0, 0);
  if (possible && !shares.readers.empty()) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("{} shares of {} topics, {} layers and {} models", shares.bits.size(),
                          shares.topics(), shares.n_layers, shares.readers.size()),
              "attention");
}

Status add(AttentionShares& into, const AttentionShares& more) {
  if (more.empty()) return {};
  if (into.empty()) {
    into = more;
    return {};
  }
  if (into.n_layers != more.n_layers || into.readers != more.readers ||
      into.keywords != more.keywords)
    return fail(ErrorCode::kCorrupt,
                fmt::format("shares of {} layers and {} models, and of {} and {}", into.n_layers,
                            into.readers.size(), more.n_layers, more.readers.size()),
                "attention");
  const auto all = static_cast<double>(into.tokens + more.tokens);
  const double keep = static_cast<double>(into.tokens) / all;
  for (size_t topic = 0; topic < into.topics(); ++topic)
    for (size_t layer = 0; layer < static_cast<size_t>(into.n_layers); ++layer)
      for (size_t reader = 0; reader < into.readers.size(); ++reader)
        into.set_share(
            topic, layer, reader,
            std::lerp(more.share(topic, layer, reader), into.share(topic, layer, reader), keep));
  into.tokens += more.tokens;
  return {};
}

}  // namespace suture
