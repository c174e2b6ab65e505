// A slave's rows that the master maps itself (apply = "reader"), in memory of its own: entry for
// entry what a slave that maps its rows would publish (actors/projected_streams.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/messages.h"
#include "actors/projected_rows.h"
#include "base/error.h"
#include "bus/stream_reader.h"
#include "fusion/token_alignment.h"
#include "kernels/device.h"
#include "models/kv_cache.h"

namespace suture {

class ProjectedSource {
 public:
  // kIncompatible if `stream` is not of the model that the projector maps. `capacity` in the
  // master's tokens. The projector must outlive the object.
  static Result<std::unique_ptr<ProjectedSource>> create(RowProjector& projector, Device& device,
                                                         const StreamInfo& stream,
                                                         const GivenText& text, int64_t capacity);

  // The text's next token.
  void push(int32_t token_id) { token_ids_.push_back(token_id); }

  KvCache& rows() { return *cache_; }
  const StreamInfo& info() const { return projector_.target(); }

  // In all calls `alignment` is the same, of the master's text to the slave's tokens, grown;
  // nullptr where the vocabulary is one.
  //
  // How many of the slave's entries rows [0, end) come from.
  static int64_t entries_needed(const TokenAlignment* alignment, int64_t end);
  // Whether the slave has what rows before `end` that are not mapped yet come from: of some.
  bool can_extend(const StreamReader& slave, const TokenAlignment* alignment, int64_t end) const;
  // Maps what can be mapped of rows [0, end), at most `most` of them.
  Status extend(const StreamReader& slave, const TokenAlignment* alignment, int64_t end,
                int64_t most);

  // Time that mapping has taken so far.
  double seconds() const { return seconds_; }

 private:
  ProjectedSource(RowProjector& projector, const GivenText& text, std::unique_ptr<KvCache> cache);

  RowProjector& projector_;
  std::unique_ptr<KvCache> cache_;
  ProjectedRows rows_;
  std::vector<int32_t> token_ids_;  // the master's, of its text
  double seconds_ = 0;
};

}  // namespace suture
