// A slave's rows as its master's own kind (design §4): mapped by a projector, one for each of the
// master's tokens. In the slave's process, which publishes them (actors/projected_streams.h), or in
// the master's, for itself (actors/projected_source.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/launch_spec.h"
#include "actors/row_source.h"
#include "actors/text_parts.h"
#include "base/error.h"
#include "bus/stream_info.h"
#include "fusion/projection.h"
#include "fusion/token_alignment.h"
#include "models/checkpoint.h"
#include "models/first_layer.h"
#include "models/kv_cache.h"
#include "models/language_model.h"

namespace suture {

// The projector of a pair, and the model at its other end.
struct ProjectionLoad {
  std::filesystem::path projector;  // file
  std::string other;                // name of the process: the master's, or the slave's
  std::filesystem::path other_path;
  std::optional<RopeScalingOverride> rope_scaling;  // the other's, as is rope_length
  int64_t rope_length = 0;
  bool force = false;
};

// A projector as one of the pair's two processes applies it, for all of its sequences. Used by the
// engine thread.
class RowProjector {
 public:
  // Checks the projector against both models. `model` is the pair's slave or master, as `role`
  // says, and must outlive the object; texts have at most `max_seq_len` tokens.
  static Result<std::unique_ptr<RowProjector>> create(const ProjectionLoad& load,
                                                      LanguageModel& model, Role role,
                                                      int64_t max_seq_len);

  // How rows of the slave, and mapped ones, are stored and rotated; without tokens.
  const StreamInfo& source() const { return source_; }
  const StreamInfo& target() const { return target_; }

 private:
  friend class ProjectedRows;
  RowProjector() = default;

  StreamInfo source_;
  StreamInfo target_;
  std::unique_ptr<Checkpoint> other_;        // of the pair's other model
  std::unique_ptr<FirstLayer> first_layer_;  // the target's, where its maps take it
  std::unique_ptr<Projection> projection_;
  // Of the run that is mapped now.
  std::vector<KvLayerView> views_;  // [source layers]
  std::vector<int32_t> target_positions_;
};

// By name of the slave.
using RowProjectors = std::map<std::string, std::unique_ptr<RowProjector>>;

// Appends the slave's entry of each of the master's next tokens, as far as that is below
// `source_entries`; -1 where it has none. `alignment` to the slave's tokens; nullptr = the same.
void append_source_entries(const TokenAlignment* alignment, int64_t source_entries,
                           std::vector<int32_t>& known);

// A text in the master's tokens, as far as they are known.
struct MasterText {
  std::span<const int32_t> token_ids;         // those whose rows may be wanted
  const TokenAlignment* alignment = nullptr;  // to the slave's tokens; nullptr = the same ones
};

// Of one text, of which the master's first `read_tokens` tokens are read, with `answers` among
// them, and those after them are followed.
class ProjectedRows {
 public:
  // `known`: the slave's entries of the rows that are mapped already.
  ProjectedRows(RowProjector& projector, int64_t read_tokens, std::vector<AnswerRun> answers,
                std::vector<int32_t> known = {});

  // Maps rows target.size() .. end, as far as the source has what they come from: its first
  // `source_entries` entries. `text` is the same, grown, in all calls.
  Status extend(const RowSource& source, int64_t source_entries, const MasterText& text,
                int64_t end, KvCache& target);
  void forget_beyond(int64_t rows) { source_entries_.resize(static_cast<size_t>(rows)); }

  const std::vector<int32_t>& source_entries() const { return source_entries_; }

 private:
  int64_t run_end(int64_t begin, int64_t end) const;
  Status map_run(const RowSource& source, std::span<const int32_t> token_ids, int64_t end,
                 KvCache& target);

  RowProjector& projector_;
  const int64_t read_tokens_;
  const std::vector<AnswerRun> answers_;
  std::vector<int32_t> source_entries_;  // [mapped, and those that come next]; -1 = no row
};

}  // namespace suture
