#include "actors/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/answer_reader.h"
#include "actors/launch_state.h"

namespace suture {
namespace {

constexpr std::chrono::milliseconds kNoWait{0};
constexpr double kMaxDeadlineSeconds = 1e6;

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: return "error";
    case FinishReason::kDeadline: return "deadline";
  }
  return "unknown";
}

Status validate(const AskOptions& options, int64_t max_seq_len) {
  if (options.max_tokens < 1 || options.max_tokens > max_seq_len)
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} tokens asked for, 1 to {} are possible", options.max_tokens, max_seq_len),
        "request");
  if (!(options.deadline_seconds >= 0 && options.deadline_seconds <= kMaxDeadlineSeconds))
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a deadline of {} s is asked for, 0 (none) to {} are possible",
                            options.deadline_seconds, kMaxDeadlineSeconds),
                "request");
  const bool own_texts =
      !options.slave_texts.documents.empty() || !options.slave_texts.aligned_text.empty();
  if (options.conversation != 0 && own_texts)
    return fail(ErrorCode::kUnsupported,
                "in a conversation slaves read the topology's documents, no others", "request",
                "ask it as a question by itself");
  SUTURE_RETURN_IF_ERROR(validate_stop_strings(options.stop));
  return validate(options.sampling);
}

Result<std::unique_ptr<Launch>> Launch::start(const LaunchSpec& spec,
                                              const LaunchOptions& options) {
  auto state = std::make_unique<State>();
  SUTURE_ASSIGN_OR_RETURN(state->prepared, prepare_launch(spec));
  state->spec = state->prepared.setup.spec;
  state->contexts = state->prepared.setup.contexts;
  State& started = *state;
  if (options.on_progress) std::ranges::for_each(started.prepared.chosen, options.on_progress);
  started.admission = std::make_unique<Admission>(
      AdmissionLimits{.running = spec.max_sequences, .waiting = spec.max_queue});
  LaunchProcesses::Events events;
  events.on_report = [&started](AnswerReport done) { started.note_report(std::move(done)); };
  events.delivered = [&started] { return started.delivered(); };
  started.processes =
      std::make_unique<LaunchProcesses>(started.spec, options, started.prepared, std::move(events));
  SUTURE_RETURN_IF_ERROR(started.processes->start());
  return std::unique_ptr<Launch>(new Launch(std::move(state)));
}

Launch::Launch(std::unique_ptr<State> state) : state_(std::move(state)) {}

Launch::~Launch() = default;

namespace {

std::string ring_name(uint64_t request) { return fmt::format("answer/{}", request); }

Delivered tokens_in(uint64_t request, const std::shared_ptr<TokenRing>& ring) {
  Delivered delivered{.request = request};
  TokenRingReader reader(ring);
  while (true) {
    const auto next = reader.try_next();
    if (!next) return delivered;
    if (!next->has_value()) break;
    delivered.token_ids.push_back((*next)->id);
  }
  delivered.finished = true;
  delivered.reason = static_cast<FinishReason>(reader.finish_reason());
  return delivered;
}

}  // namespace

// What the rings of all requests hold. They are the launcher's, and outlive who writes them.
std::vector<Delivered> Launch::State::delivered() {
  std::map<uint64_t, std::shared_ptr<TokenRing>> rings;
  {
    const std::lock_guard lock(mutex);
    for (const auto& [request, now] : running)
      if (now.ring) rings[request] = now.ring;
  }
  std::vector<Delivered> all;
  for (const auto& [request, ring] : rings) all.push_back(tokens_in(request, ring));
  return all;
}

Result<std::shared_ptr<TokenRing>> Launch::State::open_ring(uint64_t request, int64_t tokens) {
  SUTURE_ASSIGN_OR_RETURN(auto ring, TokenRing::create(static_cast<uint32_t>(tokens)));
  SUTURE_RETURN_IF_ERROR(processes->client().publish_ring(ring_name(request), ring->fd()));
  const std::lock_guard lock(mutex);
  running[request].ring = ring;
  return ring;
}

void Launch::State::close_ring(uint64_t request) {
  static_cast<void>(processes->client().withdraw_ring(ring_name(request)));
  const std::lock_guard lock(mutex);
  running.erase(request);
}

void Launch::State::note_report(AnswerReport report) {
  {
    const std::lock_guard lock(mutex);
    const auto found = running.find(report.request);
    if (found == running.end()) return;
    found->second.report = std::move(report);
  }
  changed.notify_all();
}

std::optional<AnswerReport> Launch::State::take_report(uint64_t request,
                                                       std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex);
  std::optional<AnswerReport>& report = running.at(request).report;
  changed.wait_for(lock, wait, [&] { return report.has_value(); });
  if (!report) return std::nullopt;
  AnswerReport taken = std::move(*report);
  report.reset();
  return taken;
}

uint64_t Launch::State::new_request() {
  const std::lock_guard lock(mutex);
  return std::exchange(next_request, next_request + 2);
}

uint64_t Launch::State::new_conversation() {
  const std::lock_guard lock(text_mutex);
  return next_conversation++;
}

namespace {

void take_over(AnswerReport report, Answer& answer) {
  answer.reason = report.reason;
  answer.prompt_tokens = report.prompt_tokens;
  answer.figures = std::move(report.figures);
  answer.degraded = std::move(report.degraded);
  answer.replayed = std::move(report.replayed);
  answer.spans = std::move(report.spans);
  answer.attention = std::move(report.attention);
}

}  // namespace

Result<Launch::State::Tail> Launch::State::tail_of(uint64_t conversation, const std::string& text) {
  const std::lock_guard lock(text_mutex);
  PromptBuilder& prompts = *prepared.prompts;
  if (conversation == 0) return Tail{prompts.tail(text), {}, {}};
  const auto found = conversations.find(conversation);
  if (found == conversations.end()) return no_conversation(conversation);
  Tail tail = found->second;
  const std::vector<int32_t> turn = tail.ids.empty() ? prompts.tail(text) : prompts.next_turn(text);
  tail.ids.insert(tail.ids.end(), turn.begin(), turn.end());
  return tail;
}

// The conversation goes on from what was shown; an answer that was stopped before it began leaves
// no trace.
void Launch::State::remember(const AskOptions& asked, Tail tail, const Answer& answer,
                             std::string_view more_text) {
  const std::lock_guard lock(text_mutex);
  const auto found = conversations.find(asked.conversation);
  const bool said = !ended_early(answer.reason) || !answer.token_ids.empty();
  if (found == conversations.end() || !said) return;
  const int64_t begin = std::ssize(tail.ids);
  tail.ids.insert(tail.ids.end(), answer.token_ids.begin(), answer.token_ids.end());
  tail.answers.push_back({begin, std::ssize(tail.ids)});
  const std::vector<int32_t> more = prepared.prompts->answer(more_text);
  tail.ids.insert(tail.ids.end(), more.begin(), more.end());
  tail.turns.push_back({asked.text, answer.text});
  found->second = std::move(tail);
}

namespace {

Deadline deadline_of(const AskOptions& options) {
  if (options.deadline_seconds == 0) return Deadline::max();
  return deadline_in(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(options.deadline_seconds)));
}

Result<Answer> not_admitted(const Error& error, int64_t asked_ns) {
  if (error.code != ErrorCode::kCancelled) return tl::unexpected<Error>(error);
  Answer answer;
  answer.reason = FinishReason::kCancelled;
  answer.waited_seconds = answer.seconds = seconds_since(asked_ns);
  return answer;
}

}  // namespace

Question Launch::State::question_of(const AskOptions& options, uint64_t request, const Tail& tail) {
  return {.request = request,
          .tail_ids = tail.ids,
          .answers = tail.answers,
          .max_tokens = options.max_tokens,
          .sampling = options.sampling,
          .ring = ring_name(request),
          .conversation = options.conversation,
          .ignore_eos = options.ignore_eos};
}

Result<Answer> Launch::ask(const AskOptions& options,
                           const std::function<void(std::string_view)>& on_text,
                           const std::atomic<bool>& cancelled) {
  State& state = *state_;
  SUTURE_RETURN_IF_ERROR(validate(options, state.spec.max_seq_len));
  const int64_t asked_ns = monotonic_ns();
  const Deadline deadline = deadline_of(options);
  const uint64_t client = options.client != 0 ? options.client : options.conversation;
  const auto ticket = state.admission->enter({client, options.conversation}, deadline, cancelled);
  if (!ticket) return not_admitted(ticket.error(), asked_ns);
  Answer answer;
  answer.waited_seconds = seconds_since(asked_ns);
  const EndWish wish{deadline, cancelled};
  SUTURE_ASSIGN_OR_RETURN(State::HandedOver handed, state.hand_over(options, wish));
  if (handed.ended) {
    answer.reason = *handed.ended;
    answer.seconds = seconds_since(asked_ns);
    state.add_handed_over(std::move(handed), answer);
    return answer;
  }
  SUTURE_ASSIGN_OR_RETURN(State::Tail tail, state.tail_after(handed, options, options.max_tokens));
  SUTURE_ASSIGN_OR_RETURN(auto slave_texts, state.slave_texts(options.slave_texts, tail.ids, 0));
  SUTURE_ASSIGN_OR_RETURN(auto watch, state.watch(options.attention, tail.ids, slave_texts));
  const uint64_t request = state.new_request();
  SUTURE_ASSIGN_OR_RETURN(auto ring, state.open_ring(request, options.max_tokens));

  std::vector<std::string> stops = options.stop;
  stops.insert(stops.end(), state.prepared.stop.begin(), state.prepared.stop.end());
  AnswerReader reader(ring, state.prepared.encodings->tokenizer(), std::move(stops), on_text,
                      asked_ns);
  Question question = State::question_of(options, request, tail);
  question.texts = std::move(slave_texts);
  question.watch = std::move(watch);
  state.add_drafting(options.text, question);
  state.processes->ask(std::move(question));
  bool producing = true;
  std::optional<FinishReason> told;  // why the request was told to end
  std::optional<AnswerReport> report;
  while (!report) {
    if (!told) {
      told = wish.reason();
      if (told) state.processes->cancel(request);
    }
    if (producing) producing = reader.read_slice();
    report = state.take_report(request, producing ? kNoWait : State::kReportSlice);
  }
  reader.drain();  // the report may have overtaken the last tokens
  state.close_ring(request);
  if (report->outcome.failed) return tl::unexpected<Error>(report->outcome.status().error());
  SUTURE_RETURN_IF_ERROR(check(report->attention));
  reader.finish(answer);
  answer.drafts = state.drafted_texts(std::move(report->drafts));
  take_over(std::move(*report), answer);
  state.add_handed_over(std::move(handed), answer);
  answer.forced = state.prepared.forced;
  if (answer.reason == FinishReason::kCancelled && told) answer.reason = *told;
  if (reader.stopped()) answer.reason = FinishReason::kStop;
  state.remember(options, std::move(tail), answer, reader.text_beyond_tokens());
  return answer;
}

Result<OpenedConversation> Launch::open_conversation(const std::vector<ChatTurn>& history) {
  State& state = *state_;
  const std::lock_guard lock(state.text_mutex);
  PromptBuilder& prompts = *state.prepared.prompts;
  std::vector<int32_t> tail;
  for (const ChatTurn& turn : history) {
    for (const auto& ids :
         {tail.empty() ? prompts.tail(turn.question) : prompts.next_turn(turn.question),
          prompts.answer(turn.answer)})
      tail.insert(tail.end(), ids.begin(), ids.end());
    if (std::ssize(tail) >= state.spec.max_seq_len)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the earlier turns are longer than the {} tokens of max_seq_len",
                              state.spec.max_seq_len),
                  "conversation", "raise max_seq_len in [bus], or take fewer turns");
  }
  const OpenedConversation opened{state.next_conversation++, std::ssize(tail)};
  state.conversations[opened.id] = {std::move(tail), {}, history};
  return opened;
}

void Launch::close_conversation(uint64_t id) {
  State& state = *state_;
  const std::lock_guard lock(state.text_mutex);
  if (state.conversations.erase(id) != 0) state.processes->release(id);
}

LaunchSnapshot Launch::snapshot() const {
  LaunchSnapshot snapshot;
  snapshot.time_ns = monotonic_ns();
  snapshot.started_ns = state_->started_ns;
  const AdmissionCounts counts = state_->admission->counts();
  snapshot.requests = counts.running + counts.waiting;
  snapshot.waiting = counts.waiting;
  for (const ModelSpec& model : state_->spec.models)
    snapshot.processes.push_back(state_->processes->look_at(model));
  return snapshot;
}

void Launch::close() { state_->admission->close(); }

int64_t Launch::requests() const {
  const AdmissionCounts counts = state_->admission->counts();
  return counts.running + counts.waiting;
}

std::vector<pid_t> Launch::pids() const { return state_->processes->pids(); }

}  // namespace suture
