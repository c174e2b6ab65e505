// The master's view of its slaves during one request: their streams attached, laid out as the
// merge plan says, waited for, and let go when they are lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/mapped_source.h"
#include "actors/messages.h"
#include "actors/projected_source.h"
#include "actors/vocabularies.h"
#include "base/error.h"
#include "bus/broker_client.h"
#include "bus/stream_info.h"
#include "bus/stream_reader.h"
#include "fusion/token_alignment.h"
#include "models/language_model.h"

namespace suture {

// Of an entry of the master's own stream.
int64_t position_of(const std::vector<OwnRun>& own, int64_t entry);

class Stitching {
 public:
  // `cancelled` ends every wait with kCancelled. All references must outlive the object.
  Stitching(const GenerateRequest& request, LanguageModel& model, const Vocabularies& vocabularies,
            const RowProjectors& projectors, BrokerClient& broker,
            const std::atomic<bool>& cancelled);

  // All of this is called on the engine thread; only wait_layer() waits.
  //
  // Attaches to every slave's stream. A slave that cannot be attached is treated as lost.
  Status attach();

  // The master's next token, before its row is shown anything.
  void push(int32_t token);
  // Lets rows at these positions see what they may; call before a forward run.
  void show(int64_t first_position, int64_t last_position);
  // Of the shown entries; on failure lost() names the slave.
  //
  // Whether they are there in all layers, and ready for a row of a generated token.
  Result<bool> step_ready();
  // Whether each slave has computed them in the first layer that is looked at: the others follow
  // within the chunk that it is at.
  Result<bool> chunk_ready();
  // Whether some of them are there that are to be mapped here. It is done where they are waited
  // for, if not before by project(), which maps at most `most` rows.
  bool can_project();
  Status project(int64_t most);
  // Until they are there in `layer`. kCancelled has no slave.
  Status wait_layer(int32_t layer);
  // What rings when more of them are there, or a slave is lost.
  void add_doorbells(std::vector<DoorbellData*>& doorbells) const;

  // The slave that made the last call fail.
  std::optional<size_t> lost() const { return lost_; }
  // Goes on without it, whatever else of the slave there is. An error if its policy is "fail".
  Status drop(size_t source, int64_t token, const Error& why);

  const SequencePlan& plan() const { return plan_; }
  // Of the plan's segments, `before` and then `after`: how many, and which source each comes from.
  size_t segments() const { return parts_.size(); }
  size_t source_of(size_t segment) const { return parts_[segment].source; }
  const std::vector<Degraded>& degraded() const { return degraded_; }

  // Adds waits, bytes read and time spent in mapping by this request so far.
  void report(ProcessFigures& figures) const;

  // After the request's own runs have changed.
  void build_plan();

 private:
  struct Source {
    const SourceLink* link = nullptr;
    std::unique_ptr<StreamReader> reader;
    // Where the master applies the projector.
    std::unique_ptr<ProjectedSource> projected;
    // Where rows, projected or not, cannot be used as they lie.
    std::unique_ptr<MappedSource> mapped;
    // Where it reads the master's text in tokens of its own.
    std::unique_ptr<TokenAlignment> alignment;
    std::vector<int64_t> visible_from;  // [alignment->matches()] positions

    // Where it has read another text in tokens of its own, and the master projects its rows.
    std::unique_ptr<TokenAlignment> given;

    // Which of its entries stands for which of the master's tokens; nullptr = the same one.
    const TokenAlignment* entries() const { return link->projected ? nullptr : alignment.get(); }
    // The same of what is projected here.
    const TokenAlignment* projected_entries() const {
      return given ? given.get() : alignment.get();
    }
    int64_t first_entry() const {
      return given ? given->first_matched() : link->stream.first_entry;
    }
    bool can_project(int64_t end) const {
      return projected && projected->can_extend(*reader, projected_entries(), end);
    }
  };
  struct Part {  // one planned segment, in the order of plan_.before, then plan_.after
    size_t source = 0;
    const PlannedSegment* planned = nullptr;
  };

  Status check_source(const SourceLink& link, const StreamInfo& info) const;
  Status attach_source(size_t index);
  Result<StreamReader> attach_stream(const SourceLink& link, const StreamInfo& info) const;
  Status align_text(Source& source) const;
  Result<std::unique_ptr<TokenAlignment>> align(const std::string& slave,
                                                std::span<const int32_t> token_ids) const;
  Result<RowProjector*> projector_of(const SourceLink& link) const;
  Status project_rows(Source& source, RowProjector& projector, const StreamInfo& info) const;
  Status map_rows(Source& source, const StreamInfo& info) const;
  int64_t capacity_of(const SourceLink& link) const;
  void extend_visibility(Source& source) const;
  int64_t entries_needed(size_t part);
  Status rewrite(size_t part, int32_t layer);
  void leave_out(int64_t first_position);
  int32_t awaited_layer(size_t source, int32_t layer) const;
  int32_t last_layer(size_t source) const;
  int32_t first_layer(size_t source) const;
  Result<bool> has_entries(size_t source, int32_t layer, int64_t entries);
  Status wait_entries(size_t source, int32_t layer, int64_t entries);
  bool note_ready(bool ready);
  bool is_reported(const std::string& slave) const;
  ForeignSegment foreign_segment(const Source& source, const PlannedSegment& planned) const;
  ForeignSegment& segment(size_t part);

  const GenerateRequest& request_;
  LanguageModel& model_;
  const ModelConfig& config_;
  const Vocabularies& vocabularies_;
  const RowProjectors& projectors_;
  BrokerClient& broker_;
  const std::atomic<bool>& cancelled_;
  std::vector<Source> sources_;  // [request.sources]
  std::vector<Part> parts_;
  SequencePlan plan_;
  std::vector<Degraded> degraded_;
  std::optional<size_t> lost_;
  int64_t bus_waits_ = 0;         // waits that did not find the rows ready
  double bus_wait_seconds_ = 0;   // time spent in them
  int64_t awaited_since_ns_ = 0;  // 0 = nothing was missing at the last look
  int64_t kv_bytes_read_ = 0;     // of the rows that attention went over
};

}  // namespace suture
