// Rows that a slave's process maps to its master's kind (actors/projected_rows.h), published on a
// connection of their own as streams of the master's shape. Every reader of the slave shares them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/projected_rows.h"
#include "actors/text_parts.h"
#include "base/error.h"
#include "bus/broker_client.h"
#include "bus/slab.h"
#include "fusion/token_alignment.h"
#include "models/bus_kv_cache.h"

namespace suture {

// The name under which a slave's process publishes rows of its master's kind.
std::string projected_owner(std::string_view slave, std::string_view master);

struct ProjectedSlab {
  std::string owner;  // the name of its connection to the broker
  int64_t max_seq_len = 0;
  int32_t max_sequences = 0;
};

// What is said of the master's tokens when their stream is opened.
struct ProjectedText {
  std::span<const int32_t> token_ids;         // the master's, as far as they are known
  int64_t capacity = 0;                       // of the master's tokens
  std::vector<AnswerRun> answers = {};        // of token_ids: generated
  const TokenAlignment* alignment = nullptr;  // to the slave's tokens; nullptr = the same ones
  uint64_t request = 0;
};

class ProjectedStreams;

// Used by the engine thread.
class ProjectedStream {
 public:
  // Maps what is there of the source and not mapped yet; the text is that which it was opened for,
  // grown.
  Status extend(BusKvCache& source, const MasterText& text);
  // Gives back what was reserved for tokens that did not come, where a fork can be had.
  void trim();

  const StreamWriter& writer() const { return cache_->writer(); }
  int64_t size() const { return cache_->size(); }
  // Entries before it stand for tokens without a row.
  int64_t first_entry() const { return first_entry_; }

 private:
  friend class ProjectedStreams;
  ProjectedStream(ProjectedStreams& streams, const ProjectedText& text,
                  std::unique_ptr<BusKvCache> cache, std::vector<int32_t> known);

  ProjectedStreams& streams_;
  std::unique_ptr<BusKvCache> cache_;
  ProjectedRows rows_;
  const int64_t first_entry_;
};

// Of one process; must outlive its streams.
class ProjectedStreams {
 public:
  // Publishes a slab of the master's shape.
  static Result<std::unique_ptr<ProjectedStreams>> create(std::unique_ptr<RowProjector> projector,
                                                          const ProjectedSlab& slab,
                                                          std::unique_ptr<BrokerClient> broker);

  // Takes over what `head` has of the first `head_entries` of the master's tokens, which come from
  // the first `source_entries` of the slave's: forked, as the slave's stream itself.
  Result<std::unique_ptr<ProjectedStream>> open(const ProjectedText& text,
                                                const ProjectedStream* head, int64_t head_entries,
                                                int64_t source_entries);

  // These entries of the source, all of them generated, as rows of as many of the master's tokens
  // at positions from 0 on.
  Result<std::unique_ptr<ProjectedStream>> map_generated(BusKvCache& source,
                                                         std::vector<int32_t> source_entries,
                                                         std::span<const int32_t> token_ids,
                                                         uint64_t request);

  const std::string& owner() const { return owner_; }
  void heartbeat() const { slab_->heartbeat(); }

 private:
  friend class ProjectedStream;
  ProjectedStreams() = default;

  std::string owner_;
  std::unique_ptr<BrokerClient> broker_;
  std::shared_ptr<Slab> slab_;
  std::unique_ptr<RowProjector> projector_;
};

}  // namespace suture
