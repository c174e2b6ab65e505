// A running topology: broker, coordinator and model processes, and the way to ask them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/answer.h"
#include "actors/chat_turn.h"
#include "actors/launch_snapshot.h"
#include "actors/launch_spec.h"
#include "actors/messages.h"
#include "actors/restart_policy.h"
#include "base/error.h"
#include "models/sampler.h"

namespace suture {

struct LaunchOptions {
  std::filesystem::path program = "/proc/self/exe";  // run as: program worker --ticket FD
  bool trace = false;
  RestartOptions restarts = {};  // delays; how many is the topology's to say
  // What happens while the launch starts ("master: loaded in 0.4 s"). May be empty.
  std::function<void(const std::string&)> on_progress;
};

struct OpenedConversation {
  uint64_t id = 0;
  int64_t tokens = 0;  // of its earlier turns
};

// What a slave reads for one request, in place of the topology's documents.
struct SlaveDocuments {
  std::string slave;               // with position = "prefix"
  std::vector<std::string> texts;  // at least one, none empty; read in one piece

  bool operator==(const SlaveDocuments&) const = default;
};

// What slaves read for one request only.
struct SlaveTexts {
  std::vector<SlaveDocuments> documents = {};  // of each slave once
  // What aligned slaves read in place of the question, if not empty: a control, which shows what
  // their reading of the question itself is worth. Cut at its beginning, or repeated, to the
  // question's length in tokens; kInvalidArgument for slaves of another vocabulary.
  std::string aligned_text = {};
};

// Where the master looks while it chooses tokens, or finds given ones likely.
struct AttentionQuery {
  bool wanted = false;
  // Words of which it is told apart how much of the mass falls on their occurrences in what the
  // models have read, as they are written.
  std::vector<std::string> keywords = {};
  bool must_occur = true;  // kInvalidArgument if a keyword occurs nowhere
};

struct AskOptions {
  std::string text;
  int64_t max_tokens = 256;
  SamplingOptions sampling;
  std::vector<std::string> stop = {};  // strings that end the answer; not shown
  bool ignore_eos = false;             // the model's own end tokens do not end it
  uint64_t conversation = 0;           // the next turn of it; 0 = a question by itself
  double deadline_seconds = 0;         // from asking; the answer ends then; 0 = none
  uint64_t client = 0;                 // clients take turns; 0 = the conversation is the client
  SlaveTexts slave_texts = {};         // for questions by themselves
  AttentionQuery attention = {};
};

struct ScoreOptions {
  std::string text;                        // a question, as in AskOptions
  std::vector<std::string> continuations;  // of it: possible answers; at least one, none empty
  SlaveTexts slave_texts = {};
  uint64_t client = 0;
  AttentionQuery attention = {};
};

// The same in the master's tokens, for texts that are cut at one of them: they follow the master's
// head as they are, without the turns of a chat.
struct TokenScoreOptions {
  std::vector<int32_t> question;      // may be empty where the master has a head
  std::vector<int32_t> continuation;  // at least one
  // What aligned slaves read in place of the question: as many tokens, or none.
  std::vector<int32_t> aligned = {};
  // What is told of each token of the continuation, beside how likely it is.
  ScoreDetail detail = {};
  uint64_t client = 0;
};

// kInvalidArgument names the value that is out of range; `max_seq_len` as in the topology.
Status validate(const AskOptions& options, int64_t max_seq_len);

class Launch {
 public:
  // Checks, starts every process and waits until all have loaded. Processes of a launch that
  // could not start are gone when this returns.
  static Result<std::unique_ptr<Launch>> start(const LaunchSpec& spec,
                                               const LaunchOptions& options);
  // Ends all processes.
  ~Launch();

  // Blocks until the answer is complete; up to max_sequences requests of several threads run side
  // by side, those of one conversation one after another, and clients take turns for the rest.
  // Company changes no answer. `on_text` gets whole characters as they come. Setting `cancelled`
  // ends the answer soon; what came until then is returned with FinishReason::kCancelled, and with
  // kDeadline when the deadline passed. kBusy when max_sequences and max_queue are full, kTimeout
  // when the deadline passes before its turn.
  Result<Answer> ask(const AskOptions& options,
                     const std::function<void(std::string_view text)>& on_text,
                     const std::atomic<bool>& cancelled);

  // How likely each of the continuations is as the beginning of the answer, with everything that
  // takes part in the answer. Their tokens are read as part of the prompt, in one pass, each after
  // the question, which is read once. Blocks as ask() does; kCancelled when `cancelled` was set.
  Result<Scoring> score(const ScoreOptions& options, const std::atomic<bool>& cancelled);
  Result<Scoring> score(const TokenScoreOptions& options, const std::atomic<bool>& cancelled);

  // A conversation keeps the K/V of its turns with the models, so that the next turn reads only
  // what is new. Earlier turns are read with the first question; kInvalidArgument if they are
  // longer than the topology's max_seq_len.
  Result<OpenedConversation> open_conversation(const std::vector<ChatTurn>& history);
  // Frees what it kept. The id is never reused.
  void close_conversation(uint64_t id);

  // What can be seen now; from any thread, and without disturbing the processes.
  LaunchSnapshot snapshot() const;

  // New requests are refused from now on; those that run or wait go on.
  void close();
  // Running and waiting.
  int64_t requests() const;

  // Model processes that are running; empty for placement "in-process".
  std::vector<pid_t> pids() const;

 private:
  struct State;
  explicit Launch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace suture
