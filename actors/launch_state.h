// What a launch holds (actors/launch.h). For launch.cc and the other launch_*.cc only.
#pragma once

#include <chrono>
#include <condition_variable>
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
  // Of a request whose tokens do not come through a ring.
  Result<AnswerReport> run(Question question, const std::atomic<bool>& cancelled);
  uint64_t new_request();
  // What slaves that draft need to know of a question beside its tokens.
  void add_drafting(const std::string& text, Question& question);
  std::vector<DraftedText> drafted_texts(std::vector<SlaveDraft> drafts) const;
  Result<Tail> tail_of(const AskOptions& asked);
  // The part of a text that slaves read in place of another, in tokens; `tail` is the request's, of
  // which the last `scored` tokens are no question.
  Result<std::vector<RequestText>> slave_texts(const SlaveTexts& texts,
                                               const std::vector<int32_t>& tail, int64_t scored);
  Status score(const ScoreOptions& options, const std::vector<int32_t>& question,
               const std::string& continuation, uint64_t conversation,
               const std::atomic<bool>& cancelled, Scoring& scoring);
  // Runs the request and adds what it says of its last tokens.
  Status score(Question question, const std::atomic<bool>& cancelled, Scoring& scoring);
  // For each aligned slave: `question` in place of the request's, between the master's head and
  // what is scored.
  std::vector<RequestText> aligned_texts(const std::vector<int32_t>& question,
                                         std::span<const int32_t> scored) const;
  void remember(uint64_t conversation, Tail tail, const Answer& answer, std::string_view more_text);
};

}  // namespace suture
