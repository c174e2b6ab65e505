// The streams that a model process has read, or is reading, and keeps until they are dropped:
// contexts, followers of an answer, turns of conversations.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/projected_streams.h"
#include "base/error.h"
#include "bus/slab.h"
#include "fusion/token_alignment.h"
#include "models/bus_kv_cache.h"
#include "models/model_config.h"

namespace suture {

struct OpenStream {
  ReadRequest request;
  std::vector<int32_t> token_ids;             // read or to be read, in the own vocabulary
  std::unique_ptr<TokenAlignment> alignment;  // where the request's are of another
  std::unique_ptr<BusKvCache> cache;
  std::unique_ptr<ProjectedStream> projected;  // its rows as the master's, where they are mapped
  bool being_read = false;
  bool dropped = false;  // nobody wants it any more
};

// What readers attach to, in the slab of `owner`: its rows as the master's, where they are mapped.
StreamRef announce(const OpenStream& stream, const std::string& owner);

// Used by the engine thread.
class ModelStreams {
 public:
  // `config` must outlive the object; `fingerprint` is the model's.
  ModelStreams(std::shared_ptr<Slab> slab, const ModelConfig& config, std::string fingerprint)
      : slab_(std::move(slab)), config_(config), fingerprint_(std::move(fingerprint)) {}

  // A stream of `capacity` tokens for `request` (0 = for all), forked from the first `head_entries`
  // of the stream `head_key` if there is one.
  Result<std::unique_ptr<BusKvCache>> open(uint64_t head_key, int64_t head_entries,
                                           const std::vector<int32_t>& token_ids, int64_t capacity,
                                           uint64_t request);

  void add(uint64_t key, std::shared_ptr<OpenStream> stream) { streams_[key] = std::move(stream); }
  // nullptr if there is none.
  std::shared_ptr<OpenStream> find(uint64_t key) const;
  // False while the first `entries` of it are still being read.
  bool is_readable(uint64_t key, int64_t entries) const;
  // Goes on as `key`. Gives back what was reserved for tokens that did not come.
  void keep(uint64_t key, std::shared_ptr<OpenStream> stream);
  void drop(uint64_t key);

 private:
  StreamInfo info_of(std::vector<int32_t> token_ids) const;

  std::shared_ptr<Slab> slab_;
  const ModelConfig& config_;
  const std::string fingerprint_;
  std::map<uint64_t, std::shared_ptr<OpenStream>> streams_;  // by key
};

}  // namespace suture
