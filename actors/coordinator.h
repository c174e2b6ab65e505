// The coordinator's state: who is there, which contexts are read, which request runs. Plain
// methods take what was received and return what to send; actors/coordinator_actor.cc carries it.
//
//   joining ──all joined──▶ idle ──ask──▶ opening ──all streams open──▶ generating ──▶ idle
//                                            └──────refused or master gone────────────▶ idle
//
// Contexts (documents, the master's head) are read once, as soon as everybody has joined, all at
// the same time, and serve every request after that. Requests run one after another. The streams of
// a conversation's last turn stay with the models, so that the next one reads only what is new.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/launch_spec.h"
#include "actors/messages.h"
#include "base/error.h"
#include "fusion/merge_plan.h"

namespace suture {

// What a model reads before any question comes.
struct ModelContext {
  std::string name;
  std::vector<int32_t> head_ids;        // aligned slaves: empty, they read what the master reads
  int64_t shared_tokens = 0;            // of head_ids, that the master's head begins with too
  std::vector<int32_t> layer_map = {};  // slaves: see SourceLink
  bool other_vocabulary = false;        // than the master's
};

struct CoordinatorSetup {
  LaunchSpec spec;
  std::vector<ModelContext> contexts;  // one a model, in the order of spec.models
  int32_t master_layers = 0;
  int64_t master_positions = 0;  // what the model was trained for
  std::vector<int32_t> end_ids;
};

struct Question {
  uint64_t request = 0;  // never 0, never reused
  std::vector<int32_t> tail_ids;
  int64_t max_tokens = 0;
  SamplingOptions sampling;
  std::string ring;
  uint64_t conversation = 0;  // whose earlier turns tail_ids begins with; 0 = none
};

template <typename Inspector>
auto inspect(Inspector& f, Question& x) {
  return f(x.request, x.tail_ids, x.max_tokens, x.sampling, x.ring, x.conversation);
}

struct AnswerReport {
  uint64_t request = 0;
  Outcome outcome;
  FinishReason reason = FinishReason::kError;
  int64_t prompt_tokens = 0;            // the master's own
  std::vector<ProcessFigures> figures;  // one a model that took part, in topology order
  std::vector<Degraded> degraded;
  std::vector<TraceSpan> spans;
};

using Outgoing =
    std::pair<std::string,  // name of the model
              std::variant<ReadRequest, DropStream, GenerateRequest, CancelRequest, ImportSlabs>>;

// A stream that some model reads: a context or one request's aligned slave.
struct Reading {
  size_t model = 0;
  std::optional<StreamRef> stream;  // once opened
  bool complete = false;            // ReadDone has come, or the model is gone
  std::vector<int32_t> token_ids;   // what a follower's stream holds, once complete
  std::string why;                  // it failed, if not empty
};
// A stream that a model keeps for the next turn of a conversation.
struct KeptStream {
  uint64_t key = 0;
  std::vector<int32_t> token_ids;  // of its entries
};
struct Conversation {
  std::map<size_t, KeptStream> streams;  // model -> its stream of the last turn
  // The prefix slaves that have a place in the master's positions, from the first turn on: rows
  // that were computed stay where they are, whoever is lost.
  std::optional<std::set<size_t>> placed;
};
// The request that is being answered.
struct RunningRequest {
  Question question;
  std::vector<int32_t> own_ids;        // all of the master's prompt
  uint64_t keep_key = 0;               // of the answer's stream
  std::set<size_t> placed;             // prefix slaves laid out
  std::map<size_t, uint64_t> aligned;  // model -> key of its reading
  std::set<uint64_t> awaited;          // readings whose end belongs to the report
  bool generating = false;
  std::optional<GenerateDone> done;
  AnswerReport report;
};

class Coordinator {
 public:
  explicit Coordinator(CoordinatorSetup setup);

  // Each returns what is to be sent now.
  std::vector<Outgoing> joined(const std::string& name);
  std::vector<Outgoing> ask(Question question);
  std::vector<Outgoing> read_opened(const std::string& name, const ReadOpened& opened);
  std::vector<Outgoing> read_done(const std::string& name, ReadDone done);
  std::vector<Outgoing> generate_done(GenerateDone done);
  std::vector<Outgoing> peer_ended(const std::string& name, const std::string& why);
  std::vector<Outgoing> cancel(uint64_t request);
  // The conversation has ended; its streams go.
  std::vector<Outgoing> release(uint64_t conversation);

  bool all_joined() const { return joined_.size() == setup_.spec.models.size(); }
  // The report of a request that has ended, once.
  std::optional<AnswerReport> take_report();

 private:
  const ModelSpec& model(size_t index) const { return setup_.spec.models[index]; }
  size_t index_of(const std::string& name) const;
  const Reading* reading_of(size_t index) const;
  void import_slabs(std::vector<Outgoing>& out) const;
  // Returns the key of the new reading.
  uint64_t start_reading(size_t index, ReadRequest request, std::vector<Outgoing>& out);
  Status check_length() const;
  void start_followers(std::vector<Outgoing>& out);
  const Conversation* running_conversation() const;
  // Key and number of entries of what the model has read before of the running prompt.
  std::pair<uint64_t, int64_t> read_before(size_t index) const;
  void proceed(std::vector<Outgoing>& out);
  void start_generating(std::vector<Outgoing>& out);
  Result<GenerateRequest> generation();
  Status add_source(size_t index, MergeInput& input, std::vector<SourceLink>& links);
  bool streams_open() const;
  void note_lost_slaves();
  // Ends the request before the master has answered; slaves that follow it stop.
  void end_early(const Status& why, FinishReason reason, std::vector<Outgoing>& out);
  void keep_streams(std::vector<Outgoing>& out);
  void keep_stream(size_t index, KeptStream stream, std::vector<Outgoing>& out);
  void finish();
  std::vector<float> layer_gains(const FusionSpec& fusion) const;

  const CoordinatorSetup setup_;
  size_t master_ = 0;
  std::set<std::string> joined_;
  std::map<std::string, std::string> gone_;  // name -> why
  std::map<uint64_t, Reading> readings_;     // by key
  std::map<size_t, uint64_t> contexts_;      // model -> key of its context
  std::map<uint64_t, Conversation> conversations_;
  uint64_t next_key_ = 1;
  std::optional<RunningRequest> running_;
  std::vector<ReadDone> unreported_;  // contexts read since the last report
  std::optional<AnswerReport> report_;
};

}  // namespace suture
