#include "actors/attention_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace suture {

// The watch comes from another process.
Result<AttentionWatcher> AttentionWatcher::create(const AttentionWatch& watch, int32_t n_layers,
                                                  int64_t first_entry, int64_t end_entry) {
  const size_t shares = watch.readers.size() * (1 + watch.keywords.size());
  const bool has_place = std::ranges::all_of(watch.entries, [&](const KeywordEntries& asked) {
    return 0 <= asked.reader && asked.reader < std::ssize(watch.readers) && 0 <= asked.keyword &&
           asked.keyword < std::ssize(watch.keywords);
  });
  if (shares < 1 || shares > size_t{kMaxAttentionShares} || !has_place)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} models and {} keywords are asked about", watch.readers.size(),
                            watch.keywords.size()),
                "attention");
  AttentionWatcher watcher(watch, n_layers);
  watcher.observation_.first_entry = first_entry;
  watcher.observation_.end_entry = end_entry;
  watcher.observation_.n_shares = static_cast<int32_t>(shares);
  watcher.restart();
  return watcher;
}

void AttentionWatcher::restart() {
  observation_.mass.assign(static_cast<size_t>(n_layers_ * observation_.n_shares), 0);
  observation_.rows = 0;
}

// -1: nobody asks about it.
int32_t AttentionWatcher::reader_named(const std::string& slave) const {
  const auto found = std::ranges::find(watch_.readers, slave);
  return found == watch_.readers.end() ? -1 : static_cast<int32_t>(found - watch_.readers.begin());
}

void AttentionWatcher::add_ranges(int32_t segment, int32_t reader) {
  if (reader < 0) return;
  const auto index = static_cast<size_t>(reader);
  observation_.ranges.push_back({.segment = segment, .share = share_of(0, index)});
  for (const KeywordEntries& asked : watch_.entries)
    if (asked.reader == reader)
      observation_.ranges.push_back({segment, asked.begin, asked.end,
                                     share_of(1 + static_cast<size_t>(asked.keyword), index)});
}

AttentionShares AttentionWatcher::shares() const {
  if (observation_.rows == 0) return {};
  AttentionShares shares{.tokens = observation_.rows,
                         .readers = watch_.readers,
                         .keywords = watch_.keywords,
                         .n_layers = n_layers_};
  shares.bits.resize(shares.index(shares.topics(), 0, 0));
  const auto n_shares = static_cast<size_t>(observation_.n_shares);
  for (size_t topic = 0; topic < shares.topics(); ++topic)
    for (size_t layer = 0; layer < static_cast<size_t>(n_layers_); ++layer)
      for (size_t reader = 0; reader < shares.readers.size(); ++reader) {
        const auto share = static_cast<size_t>(share_of(topic, reader));
        const double mass = observation_.mass[layer * n_shares + share];
        shares.set_share(topic, layer, reader, mass / static_cast<double>(observation_.rows));
      }
  return shares;
}

}  // namespace suture
