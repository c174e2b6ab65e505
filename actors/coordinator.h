// The coordinator's state: who is there, which contexts are read, which request runs. Plain
// methods take what was received and return what to send; actors/coordinator_actor.cc carries it.
//
// Each request:
//
//   waiting ──K/V is free──▶ opening ──all streams open──▶ generating ──▶ reported
//                              ▲└────refused, or master given up───────────▶ reported
//                              └───────────master ended───────┘
//
// Contexts (documents, the master's head) are read once, as soon as everybody has joined, all at
// the same time, and serve every request after that; a process that was started again reads its
// own anew. Streams of slaves that draft are open when they have said all. Requests run side by
// side as far as their K/V fits, and wait for it in the order they came. One whose master ended
// waits for the next master, which goes through the tokens that came already and then on. The
// streams of a conversation's last turn stay with the models, so that the next one reads only what
// is new.
//
// A hand-off is a request of its own, in which slaves of mode "text" answer and the master has no
// part: when all have answered, or cannot, it is reported. In other requests these have no part.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/conversation_store.h"
#include "actors/launch_spec.h"
#include "actors/messages.h"
#include "base/error.h"
#include "fusion/merge_plan.h"

namespace suture {

// What a model reads before any question comes.
struct ModelContext {
  std::string name;
  std::vector<int32_t> head_ids;        // aligned slaves: empty, they read what the master reads,
                                        // unless they read its head in its place
  int64_t shared_tokens = 0;            // of head_ids, that the master's head begins with too
  std::vector<int32_t> layer_map = {};  // slaves: see SourceLink
  bool other_vocabulary = false;        // than the master's
  std::vector<int32_t> end_ids = {};    // of its own vocabulary: what it says by itself ends so
};

struct CoordinatorSetup {
  LaunchSpec spec;
  std::vector<ModelContext> contexts;  // one a model, in the order of spec.models
  int32_t master_layers = 0;
  int64_t master_positions = 0;  // what the model was trained for
  std::vector<int32_t> end_ids;
};

// What a slave reads for one request only.
struct RequestText {
  std::string slave;
  // Prefix slaves: in place of their context. Aligned ones, whose vocabulary must be the master's:
  // in place of the master's whole prompt, and as long as that is.
  std::vector<int32_t> token_ids;
  int64_t shared_tokens = 0;  // prefix: of token_ids, that the master's head begins with too
};

template <typename Inspector>
auto inspect(Inspector& f, RequestText& x) {
  return f(x.slave, x.token_ids, x.shared_tokens);
}

struct DraftQuestion {
  std::string slave;
  std::vector<int32_t> token_ids;  // follow what it has read; of a hand-off: all that it reads
};

template <typename Inspector>
auto inspect(Inspector& f, DraftQuestion& x) {
  return f(x.slave, x.token_ids);
}

struct Question {
  uint64_t request = 0;  // never 0, never reused; rising with the time, but for a moment
  std::vector<int32_t> tail_ids;
  std::vector<AnswerRun> answers = {};  // of tail_ids: earlier answers
  int64_t max_tokens = 0;
  SamplingOptions sampling;
  std::string ring;           // empty where nothing is generated
  uint64_t conversation = 0;  // whose earlier turns tail_ids begins with; 0 = none
  int64_t scored_tokens = 0;  // see GenerateRequest; of tail_ids
  ScoreDetail score_detail = {};
  std::vector<RequestText> texts = {};
  bool ignore_eos = false;  // as in AskOptions
  AttentionWatch watch = {};
  int64_t opening_tokens =
      1;  // of tail_ids, the last ones before those scored: they open an answer
  // What prefix slaves that draft are asked, where they read tokens of their own; of a hand-off,
  // what each slave is asked that has a part in it.
  std::vector<DraftQuestion> draft_questions = {};
  bool hand_off = false;
};

template <typename Inspector>
auto inspect(Inspector& f, Question& x) {
  return f(x.request, x.tail_ids, x.answers, x.max_tokens, x.sampling, x.ring, x.conversation,
           x.scored_tokens, x.score_detail, x.texts, x.ignore_eos, x.watch, x.opening_tokens,
           x.draft_questions, x.hand_off);
}

// What has reached the token ring of a request.
struct Delivered {
  uint64_t request = 0;
  std::vector<int32_t> token_ids;
  bool finished = false;  // nothing comes after them, for this reason
  FinishReason reason = FinishReason::kStop;
};

// A process has ended.
struct PeerLoss {
  std::string name;
  std::string why;
  bool restarts = false;             // it is being started again, and will join
  std::vector<Delivered> delivered;  // until then, of each request that runs
};

template <typename Inspector>
auto inspect(Inspector& f, Delivered& x) {
  return f(x.request, x.token_ids, x.finished, x.reason);
}
template <typename Inspector>
auto inspect(Inspector& f, PeerLoss& x) {
  return f(x.name, x.why, x.restarts, x.delivered);
}

// What a slave said by itself before the master answered.
struct SlaveDraft {
  std::string slave;
  std::vector<int32_t> token_ids;  // in its own vocabulary
  double seconds = 0;              // from its first token to its last; of a hand-off, with reading
};

struct AnswerReport {
  uint64_t request = 0;
  Outcome outcome;
  FinishReason reason = FinishReason::kError;
  int64_t prompt_tokens = 0;            // the master's own
  std::vector<ProcessFigures> figures;  // one a model that took part, in topology order
  std::vector<Degraded> degraded;
  std::vector<Replayed> replayed;
  std::vector<TraceSpan> spans;
  std::vector<TokenScore> scores;
  AttentionShares attention;
  std::vector<SlaveDraft> drafts;
};

using Outgoing =
    std::pair<std::string,  // name of the model
              std::variant<ReadRequest, DropStream, GenerateRequest, CancelRequest, ImportSlabs>>;

// A stream that some model reads: a context, or of one request's slave.
struct Reading {
  size_t model = 0;
  uint64_t request = 0;             // 0 = a context
  std::optional<StreamRef> stream;  // once opened
  bool complete = false;            // ReadDone has come, or the model is gone
  std::vector<int32_t> token_ids;   // what the stream of a request holds, once complete
  std::string why;                  // it failed, if not empty
  std::optional<Draft> draft;       // once complete, of a reading that ends with one
};
// A request that is being answered, or waits for K/V.
struct RunningRequest {
  Question question;
  bool begun = false;               // K/V is reserved for it
  std::vector<KvRoom> reserved;     // while it has begun
  std::vector<int32_t> own_ids;     // all of the master's prompt
  uint64_t keep_key = 0;            // of the answer's stream
  uint64_t attempt = 0;             // masters that ended on the way
  int at_this_token = 0;            // of these, the last ones, without a token in between
  std::vector<int32_t> generated;   // by them
  std::map<size_t, Degraded> lost;  // slaves that took part and have ended
  std::map<std::string, std::string> reasons;  // of slaves that failed while this ran, by name
  std::set<size_t> placed;                     // prefix slaves laid out
  std::map<size_t, uint64_t> own_readings;     // model -> key of what it reads for this request
  std::map<size_t, uint64_t> drafts;           // model -> key of what it says by itself
  std::set<uint64_t> awaited;                  // readings whose end belongs to the report
  bool generating = false;
  std::optional<GenerateDone> done;
  std::vector<ReadDone> reads;  // of its own_readings
  AnswerReport report;

  bool at_work() const { return generating && !done; }
};

// Remedy where a conversation has grown too long.
inline constexpr const char* kBeginAnew =
    "begin a new conversation (/clear in the chat), ask for fewer tokens (-n), or raise "
    "max_seq_len in [bus] where the model's own limit allows it";

// coordinator.cc follows what happens, coordinator_streams.cc looks after K/V,
// coordinator_drafts.cc after what slaves say by themselves, coordinator_hand_off.cc after requests
// in which they say it in words, coordinator_request.cc makes the master's requests.
class Coordinator {
 public:
  explicit Coordinator(CoordinatorSetup setup);

  // Each returns what is to be sent now.
  std::vector<Outgoing> joined(const std::string& name);
  std::vector<Outgoing> ask(Question question);
  std::vector<Outgoing> read_opened(const std::string& name, const ReadOpened& opened);
  std::vector<Outgoing> read_done(const std::string& name, ReadDone done);
  std::vector<Outgoing> generate_done(GenerateDone done);
  std::vector<Outgoing> peer_ended(const PeerLoss& loss);
  std::vector<Outgoing> cancel(uint64_t request);
  // The conversation has ended; its streams go.
  std::vector<Outgoing> release(uint64_t conversation);

  bool all_joined() const { return joined_.size() == setup_.spec.models.size(); }
  // The report of a request that has ended, once; in the order they ended.
  std::optional<AnswerReport> take_report();

 private:
  uint64_t new_key();
  const ModelSpec& model(size_t index) const { return setup_.spec.models[index]; }
  // Whose text the master does not read itself; nullptr if there is none.
  const ModelSpec* transfer_slave() const;
  size_t index_of(const std::string& name) const;
  RunningRequest* find(uint64_t request);
  // The stream with which a model takes part in the request, if it has one.
  const Reading* reading_of(const RunningRequest& running, size_t index) const;
  void import_slabs(const std::vector<size_t>& owners, std::vector<Outgoing>& out) const;
  // A master whose text is transferred leaves its head to the slave.
  bool reads_context(size_t index) const { return index != master_ || transfer_slave() == nullptr; }
  void read_context(size_t index, std::vector<Outgoing>& out);
  void forget_context(size_t index);
  // Returns the key of the new reading.
  uint64_t start_reading(size_t index, ReadRequest request, std::vector<Outgoing>& out);
  Status check_length(const RunningRequest& running) const;
  Status check_texts(const RunningRequest& running) const;
  // What the slave reads for this request only; nullptr = nothing.
  const RequestText* text_of(const RunningRequest& running, size_t index) const;
  // What the model reads of the request: that, or the master's prompt. Of a text that it transfers,
  // what the master does not read again.
  std::span<const int32_t> prompt_of(const RunningRequest& running, size_t index) const;
  // Mode "transfer": the token of the master's prompt with which the master goes on. 0 if nothing
  // is transferred: no slave does that, or the prompt is so short that the master reads it all.
  int64_t transfer_end(const RunningRequest& running) const;
  bool reads_for_request(const RunningRequest& running, size_t index) const;
  bool is_left_out(size_t index) const;
  // Whether it reads the answer too, as that comes.
  bool follows(const RunningRequest& running, size_t index) const {
    return model(index).is_slave_at(SlavePosition::kAligned) && !model(index).transfers() &&
           !running.question.ring.empty();
  }
  std::vector<AnswerRun> own_answers(const RunningRequest& running) const;
  std::vector<KvRoom> rooms_for(const RunningRequest& running) const;
  KvRoom room_for(const RunningRequest& running, size_t index) const;
  int64_t draft_blocks(const RunningRequest& running, size_t index) const;
  bool make_room(RunningRequest& running, std::vector<Outgoing>& out);
  void drop(const std::vector<DroppedStream>& streams, std::vector<Outgoing>& out) const;
  void start_own_readings(RunningRequest& running, std::vector<Outgoing>& out);
  // Whether the slave says something by itself once it has read the request.
  bool drafts_for(const RunningRequest& running, size_t index) const;
  // The master's entries before it do without drafts; what follows depends on them.
  int64_t draft_entry(const RunningRequest& running) const;
  void start_draft(RunningRequest& running, size_t index, std::vector<Outgoing>& out);
  // What it reads first, and of this, what another stream of it begins with too.
  std::vector<int32_t> draft_prompt(const RunningRequest& running, size_t index) const;
  std::span<const int32_t> draft_head(const RunningRequest& running, size_t index) const;
  // nullptr if it does not draft.
  const Reading* draft_of(const RunningRequest& running, size_t index) const;
  void add_draft(const RunningRequest& running, const SourceLink& read, MergeInput& input,
                 std::vector<SourceLink>& links) const;
  void drop_drafts(RunningRequest& running, std::vector<Outgoing>& out);
  double said_in_seconds(const RunningRequest& running, size_t index) const;
  // Whether this request is the kind in which the model can have a part.
  bool is_concerned(const RunningRequest& running, size_t index) const {
    return model(index).hands_over() == running.question.hand_off;
  }
  bool is_asked(const RunningRequest& running, size_t index) const;
  void finish_hand_off(RunningRequest& running);
  // Notes whom a hand-off has no answer of, and can get none any more.
  void note_silent(RunningRequest& running) const;
  void cancel_readings(const RunningRequest& running, std::vector<Outgoing>& out) const;
  ReadRequest own_reading(const RunningRequest& running, size_t index) const;
  // Key and number of entries of what the model has read before of the request's prompt.
  std::pair<uint64_t, int64_t> read_before(const RunningRequest& running, size_t index) const;
  // Takes every request one step further, if it can go.
  void proceed(std::vector<Outgoing>& out);
  void begin_waiting(std::vector<Outgoing>& out);
  bool finish_complete(std::vector<Outgoing>& out);
  bool must_wait_for_others(const RunningRequest& running) const;
  void start_generating(RunningRequest& running, std::vector<Outgoing>& out);
  Result<GenerateRequest> generation(RunningRequest& running);
  Status refuse_without(const ModelSpec& slave) const;
  Status add_source(RunningRequest& running, size_t index, MergeInput& input,
                    std::vector<SourceLink>& links);
  // What the slave reads of the request, or has read before any.
  GivenText given_text(const RunningRequest& running, size_t index) const;
  bool streams_open(const RunningRequest& running) const;
  void note_lost_slaves(RunningRequest& running) const;
  void lose_master(RunningRequest& running, const PeerLoss& loss, std::vector<Outgoing>& out);
  // Ends the request before the master has answered; slaves that follow it stop.
  void end_early(RunningRequest& running, const Status& why, FinishReason reason,
                 std::vector<Outgoing>& out) const;
  void keep_streams(RunningRequest& running, std::vector<Outgoing>& out);
  void keep_stream(const RunningRequest& running, size_t index, uint64_t key,
                   std::vector<int32_t> token_ids, std::vector<Outgoing>& out);
  AnswerReport report_of(RunningRequest& running);
  std::vector<float> layer_gains(const FusionSpec& fusion) const;
  std::string text_owner(size_t index) const;
  // The peer whose slab holds what the master sees of the slave.
  std::string rows_owner(size_t index) const;

  const CoordinatorSetup setup_;
  size_t master_ = 0;
  std::set<std::string> joined_;
  std::map<std::string, PeerLoss> gone_;  // by name
  std::map<uint64_t, Reading> readings_;  // by key
  std::map<size_t, uint64_t> contexts_;   // model -> key of its context
  ConversationStore conversations_;
  uint64_t next_key_ = 1;
  std::map<uint64_t, RunningRequest> running_;  // by request: in the order they came
  std::vector<ReadDone> unreported_;            // contexts read since the last report
  std::deque<AnswerReport> reports_;
};

}  // namespace suture
