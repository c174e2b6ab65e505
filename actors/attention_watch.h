// What somebody wants to know of where a master looks, as it goes to the master's process; and what
// makes it out there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/attention_shares.h"
#include "base/error.h"
#include "models/attention_observation.h"

namespace suture {

// Entries [begin, end) of what a model has read, where a keyword occurs.
struct KeywordEntries {
  int32_t keyword = 0;  // index in AttentionWatch::keywords
  int32_t reader = 0;   // index in AttentionWatch::readers
  int64_t begin = 0;
  int64_t end = 0;
};

// The name under which it is told how much of the attention goes to a slave's draft.
inline std::string draft_reader(const std::string& slave) { return slave + " (draft)"; }

struct AttentionWatch {
  bool on = false;
  std::vector<std::string> readers = {};  // names: the master, which looks, then its slaves
  std::vector<std::string> keywords = {};
  std::vector<KeywordEntries> entries = {};
};

template <typename Inspector>
auto inspect(Inspector& f, KeywordEntries& x) {
  return f(x.keyword, x.reader, x.begin, x.end);
}
template <typename Inspector>
auto inspect(Inspector& f, AttentionWatch& x) {
  return f(x.on, x.readers, x.keywords, x.entries);
}

// Collects the shares of one request in the process of its master.
class AttentionWatcher {
 public:
  // Rows at entries [first_entry, end_entry) of the master's own are those of tokens that it
  // chooses. kInvalidArgument for what cannot be asked.
  static Result<AttentionWatcher> create(const AttentionWatch& watch, int32_t n_layers,
                                         int64_t first_entry, int64_t end_entry);

  // Before rows are computed: `slave_of(i)` names the slave that the i-th of the plan's `segments`
  // segments comes from.
  template <typename SlaveOf>
  void lay_out(size_t segments, const SlaveOf& slave_of) {
    observation_.ranges.clear();
    add_ranges(kOwnEntries, 0);
    for (size_t i = 0; i < segments; ++i)
      add_ranges(static_cast<int32_t>(i), reader_named(slave_of(i)));
  }
  AttentionObservation* observation() { return &observation_; }
  // All rows are computed again.
  void restart();

  AttentionShares shares() const;

 private:
  AttentionWatcher(const AttentionWatch& watch, int32_t n_layers)
      : watch_(watch), n_layers_(n_layers) {}
  int32_t reader_named(const std::string& slave) const;
  void add_ranges(int32_t segment, int32_t reader);
  int32_t share_of(size_t topic, size_t reader) const {
    return static_cast<int32_t>(topic * watch_.readers.size() + reader);
  }

  AttentionWatch watch_;
  int64_t n_layers_;
  AttentionObservation observation_;
};

}  // namespace suture
