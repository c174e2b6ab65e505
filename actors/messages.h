// What the processes of a launch say to each other: per request or per context, never per token.
// All of it is pushed one way; nobody waits for a reply, so that no bound on a reply can mistake
// slow work for a dead process. Plain data; CAF carries it through the inspect() functions below.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "actors/attention_shares.h"
#include "actors/attention_watch.h"
#include "actors/figures.h"
#include "actors/text_parts.h"
#include "base/error.h"
#include "fusion/layer_map.h"
#include "fusion/merge_plan.h"
#include "models/sampler.h"

namespace suture {

// An Error, or success when `failed` is false.
struct Outcome {
  bool failed = false;
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string what;
  std::string where;
  std::string remedy;

  static Outcome of(const Status& status) {
    if (status) return {};
    const Error& error = status.error();
    return {true, error.code, error.what, error.where, error.remedy};
  }
  Status status() const {
    if (!failed) return {};
    return fail(code, what, where, remedy);
  }
};

// A published stream, as its owner announces it.
struct StreamRef {
  std::string owner;  // name of the model process
  uint32_t slot = 0;
  uint64_t generation = 0;
  std::vector<char> info;   // encoded bus/stream_info.h
  int64_t first_entry = 0;  // entries before it hold no rows
};

// A worker has loaded its model and published its slab.
struct Joined {
  std::string name;
  Outcome outcome;  // or why it could not
  double load_seconds = 0;
  double warm_up_seconds = 0;  // 0 = it was not asked to
  uint64_t incarnation = 0;    // as in its ticket
};

// To the master, when all have joined: map the slabs of these processes now.
struct ImportSlabs {
  std::vector<std::string> owners;
};

// How a slave goes on after a text, by itself: the best token each time, at most so many, and up to
// one that ends it.
struct DraftWish {
  int64_t tokens = 0;  // 0 = it does not
  std::vector<int32_t> end_ids;
};

// What has come of it: the last entries of a stream.
struct Draft {
  StreamRef stream;  // without an owner if there are no tokens
  int64_t begin = 0;
  int64_t end = 0;                 // in entries of the stream
  std::vector<int32_t> token_ids;  // in the slave's vocabulary
  double seconds = 0;              // from the first to the last of them
};

// Read `token_ids` into a new stream named `key`, and keep it until it is dropped. Where the slave
// maps its rows, the stream that it announces has one for each of these tokens.
struct ReadRequest {
  uint64_t key = 0;
  std::vector<int32_t> token_ids;
  int64_t capacity = 0;     // tokens; at least token_ids.size()
  std::string follow_ring;  // then read the tokens of this ring as they come; empty = none
  uint64_t head_key = 0;    // a stream read before, whose first entries are forked; 0 = none
  int64_t head_entries = 0;
  uint64_t request = 0;  // that the stream belongs to; 0 = a context for all
  // Whose vocabulary the tokens are of, where it is not the reader's: they are read as text, which
  // ends with them unless a ring is followed.
  std::string text_of = {};
  std::vector<AnswerRun> answers = {};  // of token_ids
  // Then no stream is opened until all has been drafted; the stream `head_key` gives what both
  // texts begin with, however long that is.
  DraftWish draft = {};
};

// Sent back before the tokens are read: readers attach and wait for the rows.
struct ReadOpened {
  uint64_t key = 0;
  Outcome outcome;
  StreamRef stream;
};

// Pushed when all was read, or reading failed (the stream is closed then).
struct ReadDone {
  uint64_t key = 0;
  Outcome outcome;
  std::vector<int32_t> token_ids;  // what the stream of a follower holds now
  ProcessFigures figures;
  std::vector<TraceSpan> spans;
  Draft draft = {};
};

struct DropStream {
  uint64_t key = 0;
};

// What a slave is given to read, in its master's tokens.
struct GivenText {
  std::vector<int32_t> token_ids;
  std::vector<AnswerRun> answers = {};  // of these
  bool as_text = false;                 // they are of another vocabulary than the slave's
};

// One slave's part in a request.
struct SourceLink {
  std::string name;
  StreamRef stream;
  std::vector<PlannedSegment> segments;
  bool fail_when_lost = false;  // on_failure = "fail"
  // [n_layers] log-gains as bit patterns of float32: what CAF 0.17 does to encode a float never
  // ends for an infinity.
  std::vector<uint32_t> layer_gain_bits;
  // [n_layers] which of the slave's layers meets each of the master's (fusion/layer_map.h).
  std::vector<int32_t> layer_map;
  bool other_vocabulary = false;  // aligned: it reads the text in tokens of its own
  bool projected = false;  // its rows are of the master's kind, one for each of the master's tokens
  // They are so once the master has mapped them: the stream holds the slave's own.
  bool project_here = false;
  GivenText given = {};  // with project_here
  bool draft = false;    // what the slave said by itself; it has another link for what it read

  float gain(int32_t layer) const {
    return std::bit_cast<float>(layer_gain_bits[static_cast<size_t>(layer)]);
  }
  // Which of the slave's layers meets this one of the master's, or kNoPartner.
  int32_t slave_layer(int32_t layer) const { return layer_map[static_cast<size_t>(layer)]; }
  bool sees(int32_t layer) const {
    const bool is_off = std::isinf(gain(layer)) && gain(layer) < 0;
    return slave_layer(layer) != kNoPartner && !is_off;
  }
  bool sees_any() const {
    for (int32_t layer = 0; layer < std::ssize(layer_gain_bits); ++layer)
      if (sees(layer)) return true;
    return false;
  }
};

// What is told of each scored token beside how likely it is.
struct ScoreDetail {
  int32_t top = 0;                    // the so many most likely tokens in its place
  std::vector<int32_t> watched = {};  // [scored tokens][n] tokens, told how likely they are there

  bool operator==(const ScoreDetail&) const = default;
};

struct GenerateRequest {
  uint64_t request = 0;
  uint64_t head_key = 0;  // a stream read before, whose first entries are forked; 0 = none
  int64_t head_entries = 0;
  std::vector<int32_t> token_ids;  // all of the master's own tokens, head included
  std::vector<AnswerRun> answers;  // of token_ids: what it generated in earlier turns
  std::vector<OwnRun> own;
  int64_t first_new_position = 0;
  int64_t stitch_end = INT64_MAX;  // rows from this position on do without slaves
  std::vector<SourceLink> sources;
  int64_t max_tokens = 0;
  std::vector<int32_t> end_ids;
  SamplingOptions sampling;
  std::string ring;  // token ring, published on the broker under this name; empty = no tokens come
  // Tokens that a master before this one generated and the ring holds: the answer goes on from
  // them.
  std::vector<int32_t> generated;
  uint64_t attempt = 0;   // returned with the answer
  uint64_t keep_key = 0;  // keep the answer's stream under this key, until dropped; 0 = no
  // The last so many of token_ids are scored, as part of the prompt, and nothing is generated;
  // 0 = an answer is wanted.
  int64_t scored_tokens = 0;
  AttentionWatch watch = {};
  // Mode "transfer": all of the text, of which token_ids leaves out what is transferred. The master
  // reads it itself if the slave is lost. Empty in any other mode.
  std::vector<int32_t> whole_ids = {};
  ScoreDetail score_detail = {};
};

// How likely the model found a token that was given. Logarithms are ln p, as bit patterns of
// float32 as in SourceLink.
struct TokenScore {
  uint32_t logprob_bits = 0;
  bool best = false;                        // no other token is more likely
  std::vector<int32_t> top = {};            // as ScoreDetail asks for; most likely first
  std::vector<uint32_t> top_bits = {};      // [top]
  std::vector<uint32_t> watched_bits = {};  // of this place's watched tokens

  float logprob() const { return std::bit_cast<float>(logprob_bits); }
  bool operator==(const TokenScore&) const = default;
};

enum class FinishReason : uint32_t {
  kStop = 1,
  kLength = 2,
  kCancelled = 3,
  kError = 4,
  kDeadline = 5
};

// From this token on the answer went on without a slave.
struct Degraded {
  std::string slave;
  int64_t token = 0;  // index in the answer
  std::string why;
};

// The master ended, and another one went on with the answer from this token. It has seen the tokens
// before it, but what comes may differ from what the first one would have said.
struct Replayed {
  int64_t token = 0;  // index in the answer
  std::string why;
};

// Pushed when the answer is complete, cancelled or failed.
struct GenerateDone {
  uint64_t request = 0;
  uint64_t attempt = 0;
  Outcome outcome;
  FinishReason reason = FinishReason::kStop;
  ProcessFigures figures;
  std::vector<Degraded> degraded;
  std::vector<TraceSpan> spans;
  std::vector<int32_t> token_ids;  // what the kept stream holds; empty if none was kept
  std::vector<TokenScore> scores;  // [scored_tokens]
  AttentionShares attention = {};  // where it was asked for
};

struct CancelRequest {
  uint64_t request = 0;
};

template <typename Inspector>
auto inspect(Inspector& f, Outcome& x) {
  return f(x.failed, x.code, x.what, x.where, x.remedy);
}
template <typename Inspector>
auto inspect(Inspector& f, StreamRef& x) {
  return f(x.owner, x.slot, x.generation, x.info, x.first_entry);
}
template <typename Inspector>
auto inspect(Inspector& f, Joined& x) {
  return f(x.name, x.outcome, x.load_seconds, x.warm_up_seconds, x.incarnation);
}
template <typename Inspector>
auto inspect(Inspector& f, ProcessFigures& x) {
  return f(x.name, x.role, x.prompt_tokens, x.reused_tokens, x.prefill_seconds,
           x.projection_seconds, x.decoded_tokens, x.decode_seconds, x.bus_waits,
           x.bus_wait_seconds, x.kv_bytes_published, x.kv_bytes_read, x.resident_bytes,
           x.lazily_built);
}
template <typename Inspector>
auto inspect(Inspector& f, TraceSpan& x) {
  return f(x.process, x.name, x.start_ns, x.duration_ns);
}
template <typename Inspector>
auto inspect(Inspector& f, DraftWish& x) {
  return f(x.tokens, x.end_ids);
}
template <typename Inspector>
auto inspect(Inspector& f, Draft& x) {
  return f(x.stream, x.begin, x.end, x.token_ids, x.seconds);
}
template <typename Inspector>
auto inspect(Inspector& f, ReadRequest& x) {
  return f(x.key, x.token_ids, x.capacity, x.follow_ring, x.head_key, x.head_entries, x.request,
           x.text_of, x.answers, x.draft);
}
template <typename Inspector>
auto inspect(Inspector& f, ImportSlabs& x) {
  return f(x.owners);
}
template <typename Inspector>
auto inspect(Inspector& f, ReadOpened& x) {
  return f(x.key, x.outcome, x.stream);
}
template <typename Inspector>
auto inspect(Inspector& f, ReadDone& x) {
  return f(x.key, x.outcome, x.token_ids, x.figures, x.spans, x.draft);
}
template <typename Inspector>
auto inspect(Inspector& f, DropStream& x) {
  return f(x.key);
}
template <typename Inspector>
auto inspect(Inspector& f, OwnRun& x) {
  return f(x.begin, x.position_offset);
}
template <typename Inspector>
auto inspect(Inspector& f, PlannedSegment& x) {
  return f(x.source, x.position, x.begin, x.end, x.position_offset, x.rotation_shift, x.lag);
}
template <typename Inspector>
auto inspect(Inspector& f, SamplingOptions& x) {
  return f(x.temperature, x.top_k, x.top_p, x.seed, x.min_p, x.repetition_penalty,
           x.repetition_window);
}
template <typename Inspector>
auto inspect(Inspector& f, GivenText& x) {
  return f(x.token_ids, x.answers, x.as_text);
}
template <typename Inspector>
auto inspect(Inspector& f, SourceLink& x) {
  return f(x.name, x.stream, x.segments, x.fail_when_lost, x.layer_gain_bits, x.layer_map,
           x.other_vocabulary, x.projected, x.project_here, x.given, x.draft);
}
template <typename Inspector>
auto inspect(Inspector& f, ScoreDetail& x) {
  return f(x.top, x.watched);
}
template <typename Inspector>
auto inspect(Inspector& f, GenerateRequest& x) {
  return f(x.request, x.head_key, x.head_entries, x.token_ids, x.answers, x.own,
           x.first_new_position, x.stitch_end, x.sources, x.max_tokens, x.end_ids, x.sampling,
           x.ring, x.generated, x.attempt, x.keep_key, x.scored_tokens, x.watch, x.whole_ids,
           x.score_detail);
}
template <typename Inspector>
auto inspect(Inspector& f, TokenScore& x) {
  return f(x.logprob_bits, x.best, x.top, x.top_bits, x.watched_bits);
}
template <typename Inspector>
auto inspect(Inspector& f, Degraded& x) {
  return f(x.slave, x.token, x.why);
}
template <typename Inspector>
auto inspect(Inspector& f, GenerateDone& x) {
  return f(x.request, x.attempt, x.outcome, x.reason, x.figures, x.degraded, x.spans, x.token_ids,
           x.scores, x.attention);
}
template <typename Inspector>
auto inspect(Inspector& f, CancelRequest& x) {
  return f(x.request);
}

}  // namespace suture
