// What a launch holds (actors/launch.h). For launch.cc and the other launch_*.cc only.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/admission.h"
#include "actors/launch.h"
#include "actors/launch_preparation.h"
#include "actors/launch_processes.h"
#include "actors/trace_log.h"
#include "bus/token_ring.h"

namespace suture {

// When a request is to end before it is complete.
struct EndWish {
  Deadline deadline;
  const std::atomic<bool>& cancelled;

  std::optional<FinishReason> reason() const {
    if (cancelled.load()) return FinishReason::kCancelled;
    if (std::chrono::steady_clock::now() >= deadline) return FinishReason::kDeadline;
    return std::nullopt;
  }
};

inline tl::unexpected<Error> no_conversation(uint64_t id) {
  return fail(ErrorCode::kNotFound, "there is no conversation " + std::to_string(id), "request");
}

struct Launch::State {
  // Then whoever waits for a report looks whether the request was cancelled.
  static constexpr std::chrono::milliseconds kReportSlice{100};

  LaunchSpec spec;
  PreparedLaunch prepared;             // its setup is the coordinator's
  std::vector<ModelContext> contexts;  // [models] what each reads before any question

  std::mutex mutex;
  std::condition_variable changed;
  struct RunningRequest {
    std::shared_ptr<TokenRing> ring;
    std::optional<AnswerReport> report;  // when it has ended
  };
  std::map<uint64_t, RunningRequest> running;  // by request; guarded by mutex
  uint64_t next_request = 1;                   // odd numbers; guarded by mutex

  const int64_t started_ns = monotonic_ns();
  std::unique_ptr<Admission> admission;

  // Held while text is encoded, not while an answer is waited for: others may begin and end their
  // conversations meanwhile. Guards prepared.prompts and the two below.
  std::mutex text_mutex;
  uint64_t next_conversation = 1;
  // What follows the head: turns as they were read and generated, up to the last answer.
  struct Tail {
    std::vector<int32_t> ids;
    std::vector<AnswerRun> answers;  // of ids
    std::vector<ChatTurn> turns;     // the same as it was asked and shown
  };
  std::map<uint64_t, Tail> conversations;

  std::unique_ptr<LaunchProcesses> processes;  // last: its threads call what is above

  std::vector<Delivered> delivered();
  Result<std::shared_ptr<TokenRing>> open_ring(uint64_t request, int64_t tokens);
  void close_ring(uint64_t request);
  void note_report(AnswerReport report);
  std::optional<AnswerReport> take_report(uint64_t request, std::chrono::milliseconds wait);
  // Where the keywords occur in what the models read of a request. kInvalidArgument for one that
  // occurs nowhere and must.
  Result<AttentionWatch> watch(const AttentionQuery& query, const std::vector<int32_t>& tail,
                               const std::vector<RequestText>& texts) const;
  // Of a request whose tokens do not come through a ring; it is cancelled once that is wanted.
  AnswerReport report_on(Question question, const std::function<bool()>& cancel_wanted);
  Result<AnswerReport> run(Question question, const std::atomic<bool>& cancelled);
  static Question question_of(const AskOptions& options, uint64_t request, const Tail& tail);
  uint64_t new_request();
  uint64_t new_conversation();
  // What slaves that draft need to know of a question beside its tokens.
  void add_drafting(const std::string& text, Question& question);
  std::vector<DraftedText> drafted_texts(std::vector<SlaveDraft> drafts) const;
  Result<Tail> tail_of(uint64_t conversation, const std::string& text);
  // What slaves said in words before the master is asked.
  struct HandedOver {
    std::vector<DraftedText> said;  // what the master reads of it
    std::vector<DraftedText> all;
    std::vector<Degraded> degraded;
    std::vector<ProcessFigures> figures;
    std::vector<TraceSpan> spans;
    std::optional<FinishReason> ended;  // the request has ended with it
  };
  // Asks them. Of the time to a deadline they get one half.
  Result<HandedOver> hand_over(const AskOptions& asked, const EndWish& wish);
  Result<Question> hand_off_question(const AskOptions& asked);
  Status take_words(AnswerReport report, HandedOver& handed);
  // The master's text with what was handed over before the question. Of what does not fit into
  // max_seq_len together with so many more tokens, the last is left out.
  Result<Tail> tail_after(HandedOver& handed, const AskOptions& asked, int64_t more_tokens);
  void add_handed_over(HandedOver handed, Answer& answer) const;
  // Of requests that came before `figures`; in the order of the topology.
  void add_handed_figures(std::vector<ProcessFigures> handed,
                          std::vector<ProcessFigures>& figures) const;
  // A question of token ids is no text that another model could be asked.
  Status refuse_to_hand_over() const;
  // What slaves read for one request, documents only; text_mutex is held.
  Result<std::vector<RequestText>> document_texts(const SlaveTexts& texts) const;
  const SlavePrompts* document_prompts(const std::string& slave) const;
  // The part of a text that slaves read in place of another, in tokens; `tail` is the request's, of
  // which the last `scored` tokens are no question.
  Result<std::vector<RequestText>> slave_texts(const SlaveTexts& texts,
                                               const std::vector<int32_t>& tail, int64_t scored);
  Status score(const ScoreOptions& options, const std::vector<int32_t>& question,
               const std::string& continuation, uint64_t conversation,
               const std::atomic<bool>& cancelled, Scoring& scoring);
  int64_t longest(const std::vector<std::string>& continuations);  // of them, in tokens
  // Runs the request and adds what it says of its last tokens.
  Status score(Question question, const std::atomic<bool>& cancelled, Scoring& scoring);
  // For each aligned slave: `question` in place of the request's, between the master's head and
  // what is scored.
  std::vector<RequestText> aligned_texts(const std::vector<int32_t>& question,
                                         std::span<const int32_t> scored) const;
  void remember(const AskOptions& asked, Tail tail, const Answer& answer,
                std::string_view more_text);
};

}  // namespace suture
