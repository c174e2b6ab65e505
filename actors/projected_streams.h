// A slave's rows as its master's own kind (design §4): mapped by a projector in the slave's
// process, and published on a connection of their own as streams of the master's shape, with one
// row for each of the master's tokens. Every reader of the slave shares them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/text_parts.h"
#include "base/error.h"
#include "bus/broker_client.h"
#include "bus/slab.h"
#include "fusion/projection.h"
#include "fusion/token_alignment.h"
#include "models/bus_kv_cache.h"
#include "models/language_model.h"

namespace suture {

// The name under which a slave's process publishes rows of its master's kind.
std::string projected_owner(std::string_view slave, std::string_view master);

struct ProjectionLoad {
  std::filesystem::path projector;  // file
  std::string master;               // name of the process
  std::filesystem::path master_path;
  std::optional<RopeScalingOverride> rope_scaling;  // the master's, as is rope_length
  int64_t rope_length = 0;
  bool force = false;
};

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
  // Maps what is there of the source and not mapped yet; `alignment` as when it was opened.
  Status extend(BusKvCache& source, const TokenAlignment* alignment);
  // Gives back what was reserved for tokens that did not come, where a fork can be had.
  void trim();

  const StreamWriter& writer() const { return cache_->writer(); }
  int64_t size() const { return cache_->size(); }
  // Entries before it stand for tokens without a row.
  int64_t first_entry() const { return first_entry_; }

 private:
  friend class ProjectedStreams;
  ProjectedStream(ProjectedStreams& streams, const ProjectedText& text,
                  std::unique_ptr<BusKvCache> cache, std::vector<int32_t> source_entries);

  int64_t run_end(int64_t end) const;
  Status map_run(BusKvCache& source, int64_t end);

  ProjectedStreams& streams_;
  std::unique_ptr<BusKvCache> cache_;
  std::vector<int32_t> source_entries_;  // [size(), and those that come next]; -1 = no row
  const std::vector<AnswerRun> answers_;
  const int64_t read_tokens_;  // those after them are followed
  const int64_t first_entry_;
};

// Of one process; must outlive its streams.
class ProjectedStreams {
 public:
  // Checks the projector against both models, and publishes a slab of the master's shape. `model`
  // is the source, and must outlive the object.
  static Result<std::unique_ptr<ProjectedStreams>> create(const ProjectionLoad& load,
                                                          LanguageModel& model,
                                                          const ProjectedSlab& slab,
                                                          std::unique_ptr<BrokerClient> broker);

  // Takes over what `head` has of the first `head_entries` of the master's tokens, which come from
  // the first `source_entries` of the slave's: forked, as the slave's stream itself.
  Result<std::unique_ptr<ProjectedStream>> open(const ProjectedText& text,
                                                const ProjectedStream* head, int64_t head_entries,
                                                int64_t source_entries);

  const std::string& owner() const { return owner_; }
  void heartbeat() const { slab_->heartbeat(); }

 private:
  friend class ProjectedStream;
  ProjectedStreams() = default;

  std::string owner_;
  std::unique_ptr<BrokerClient> broker_;
  std::shared_ptr<Slab> slab_;
  StreamInfo info_;  // of the streams, without tokens
  std::unique_ptr<Projection> projection_;
  // Of the run that is mapped now.
  std::vector<KvLayerView> views_;  // [source layers]
  std::vector<int32_t> target_positions_;
};

}  // namespace suture
