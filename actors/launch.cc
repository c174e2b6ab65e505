#include "actors/launch.h"

#include <fmt/format.h>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <caf/all.hpp>
#include <caf/openssl/all.hpp>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "actors/admission.h"
#include "actors/answer_reader.h"
#include "actors/caf_system.h"
#include "actors/coordinator_actor.h"
#include "actors/launch_preparation.h"
#include "actors/model_actor.h"
#include "actors/supervisor.h"
#include "actors/trace_log.h"
#include "bus/broker.h"
#include "bus/stream_reader.h"
#include "bus/token_ring.h"

namespace suture {
namespace {

constexpr const char* kLauncherName = "launcher";
constexpr std::chrono::milliseconds kReportSlice{
    100};  // then look whether the request was cancelled
constexpr double kMaxDeadlineSeconds = 1e6;

Result<std::string> random_secret() {
  unsigned char bytes[32];
  if (RAND_bytes(bytes, sizeof bytes) != 1)
    return fail(ErrorCode::kIo, "no random bytes for the launch's secret", "launch");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

ModelLoad model_load(const LaunchSpec& spec, const PreparedLaunch& prepared, size_t index,
                     bool trace) {
  const ModelSpec& model = spec.models[index];
  return {.name = model.name,
          .role = model.role,
          .path = model.path,
          .device = model.device,
          .threads = model.threads,
          .max_seq_len = spec.max_seq_len,
          .max_sequences = spec.max_sequences,
          .vocabularies = prepared.vocabularies[index],
          .norms_of = model.fusion.norm == NormSource::kMaster ? spec.master().path : "",
          .trace = trace,
          .warm_up = spec.warm_up,
          .rope_scaling = model.rope_scaling,
          .rope_length = model.rope_length,
          .rope_crossing = model.rope_crossing};
}

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
  SUTURE_RETURN_IF_ERROR(validate_stop_strings(options.stop));
  return validate(options.sampling);
}

struct Launch::State {
  LaunchSpec spec;
  LaunchOptions options;
  PreparedLaunch prepared;
  std::string secret;
  std::optional<TlsIdentity> identity;     // placement "processes" only
  std::unique_ptr<Supervisor> supervisor;  // outlives the broker, whose thread calls it

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::set<std::string> joined;              // guarded by mutex
  std::map<std::string, std::string> ended;  // name to why, guarded by mutex
  std::optional<Error> start_failure;        // guarded by mutex
  bool stopping = false;                     // guarded by mutex
  std::optional<AnswerReport> report;        // guarded by mutex
  caf::actor coordinator;                    // set once, under mutex

  const int64_t started_ns = monotonic_ns();
  std::unique_ptr<Admission> admission;  // one request runs at a time

  uint64_t next_request = 1;  // odd numbers; belongs to who has the ticket

  // Held while text is encoded, not while an answer is waited for: others may begin and end their
  // conversations meanwhile. Guards prepared.prompts and the two below.
  std::mutex text_mutex;
  uint64_t next_conversation = 1;
  // What follows the head: turns as they were read and generated, up to the last answer.
  std::map<uint64_t, std::vector<int32_t>> conversations;

  std::unique_ptr<CafSystem> system;
  std::unique_ptr<Broker> broker;
  std::unique_ptr<BrokerClient> client;

  void note_joined(const Joined& join);
  void note_peer_end(const std::string& name, PeerEnd end, const std::string& detail);
  Status start_broker();
  Status start_coordinator();
  Status start_processes();
  Status start_in_process();
  Status wait_until_joined();
  Result<std::shared_ptr<TokenRing>> open_ring(const std::string& name, int64_t tokens) const;
  std::optional<AnswerReport> take_report();
  Result<std::vector<int32_t>> tail_of(const AskOptions& asked);
  void remember(uint64_t conversation, std::vector<int32_t> tail, const Answer& answer,
                std::string_view more_text);
  ProcessSnapshot look_at_process(const ModelSpec& model) const;
};

void Launch::State::note_joined(const Joined& join) {
  if (!join.outcome.failed && options.on_progress)
    options.on_progress(join.warm_up_seconds == 0
                            ? fmt::format("{}: loaded in {:.1f} s", join.name, join.load_seconds)
                            : fmt::format("{}: loaded in {:.1f} s, warmed up in {:.1f} s",
                                          join.name, join.load_seconds, join.warm_up_seconds));
  {
    const std::lock_guard lock(mutex);
    if (join.outcome.failed)
      start_failure = join.outcome.status().error();
    else
      joined.insert(join.name);
  }
  changed.notify_all();
}

void Launch::State::note_peer_end(const std::string& name, PeerEnd end, const std::string& detail) {
  if (name == kLauncherName) return;
  std::string why = fmt::format("process {}", peer_end_name(end));
  if (supervisor) why += fmt::format(" ({})", supervisor->reap(name));
  if (!detail.empty()) why += fmt::format(": {}", detail);
  caf::actor to;
  {
    const std::lock_guard lock(mutex);
    if (stopping) return;
    ended[name] = why;
    to = coordinator;
    if (joined.size() < spec.models.size() && !start_failure)
      start_failure = Error{ErrorCode::kLost, why, name, "run again with -v for its messages"};
  }
  changed.notify_all();
  spdlog::warn("{}: {}", name, why);
  if (to) tell_peer_ended(to, name, why);
}

Status Launch::State::start_broker() {
  SUTURE_ASSIGN_OR_RETURN(secret, random_secret());
  BrokerOptions broker_options;
  broker_options.secret = secret;
  broker_options.on_peer_end = [this](PeerId, const std::string& name, PeerEnd end,
                                      const std::string& detail) {
    note_peer_end(name, end, detail);
  };
  SUTURE_ASSIGN_OR_RETURN(broker, Broker::start(std::move(broker_options)));
  SUTURE_ASSIGN_OR_RETURN(client, BrokerClient::connect(broker->address(), secret, kLauncherName));
  return {};
}

Status Launch::State::start_coordinator() {
  system = std::make_unique<CafSystem>(identity ? &*identity : nullptr, 0);
  CoordinatorEvents events;
  events.on_joined = [this](const Joined& join) { note_joined(join); };
  events.on_report = [this](AnswerReport done) {
    {
      const std::lock_guard lock(mutex);
      report = std::move(done);
    }
    changed.notify_all();
  };
  // A live process that cannot be told anything any more is of no use: the broker reports its end.
  events.on_unreachable = [this](const std::string& name) {
    if (supervisor) supervisor->kill(name);
  };
  const std::lock_guard lock(mutex);
  coordinator = spawn_coordinator(system->get(), std::move(prepared.setup), std::move(events));
  return {};
}

Status Launch::State::start_processes() {
  const auto port = caf::openssl::publish(coordinator, 0, "127.0.0.1");
  if (!port)
    return fail(ErrorCode::kIo, "cannot listen on 127.0.0.1: " + system->get().render(port.error()),
                "launch");
  for (size_t i = 0; i < spec.models.size(); ++i) {
    WorkerTicket ticket;
    ticket.broker_address = broker->address();
    ticket.secret = secret;
    ticket.coordinator_port = *port;
    ticket.load = model_load(spec, prepared, i, options.trace);
    SUTURE_RETURN_IF_ERROR(supervisor->start(std::move(ticket), *identity));
  }
  return {};
}

Status Launch::State::start_in_process() {
  for (size_t i = 0; i < spec.models.size(); ++i) {
    const ModelSpec& model = spec.models[i];
    SUTURE_ASSIGN_OR_RETURN(auto peer,
                            BrokerClient::connect(broker->address(), secret, model.name));
    SUTURE_ASSIGN_OR_RETURN(
        auto service,
        ModelService::load(model_load(spec, prepared, i, options.trace), std::move(peer)));
    spawn_model_actor(system->get(), std::shared_ptr<ModelService>(std::move(service)),
                      coordinator);
  }
  return {};
}

// As long as it takes: a process that dies on the way is reported by the broker, one that cannot
// load says so itself.
Status Launch::State::wait_until_joined() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return start_failure || joined.size() == spec.models.size(); });
  if (start_failure) return tl::unexpected<Error>(*start_failure);
  return {};
}

Result<std::unique_ptr<Launch>> Launch::start(const LaunchSpec& spec,
                                              const LaunchOptions& options) {
  auto state = std::make_unique<State>();
  state->spec = spec;
  state->options = options;
  SUTURE_ASSIGN_OR_RETURN(state->prepared, prepare_launch(spec));
  std::unique_ptr<Launch> launch(new Launch(std::move(state)));
  State& started = *launch->state_;
  started.admission = std::make_unique<Admission>(
      AdmissionLimits{.running = 1, .waiting = spec.max_sequences + spec.max_queue - 1});
  const bool processes = spec.placement == Placement::kProcesses;
  if (processes) {
    SUTURE_ASSIGN_OR_RETURN(TlsIdentity identity, TlsIdentity::create());
    started.identity.emplace(std::move(identity));
    started.supervisor = std::make_unique<Supervisor>(options.program);
  }
  SUTURE_RETURN_IF_ERROR(started.start_broker());
  SUTURE_RETURN_IF_ERROR(started.start_coordinator());
  SUTURE_RETURN_IF_ERROR(processes ? started.start_processes() : started.start_in_process());
  SUTURE_RETURN_IF_ERROR(started.wait_until_joined());
  return launch;
}

Launch::Launch(std::unique_ptr<State> state) : state_(std::move(state)) {}

Launch::~Launch() {
  State& state = *state_;
  {
    const std::lock_guard lock(state.mutex);
    state.stopping = true;
  }
  if (state.coordinator) {
    caf::anon_send_exit(state.coordinator, caf::exit_reason::user_shutdown);
    state.coordinator = nullptr;
  }
  // Workers end when their connection to the broker closes; in-process models with the system.
  if (state.supervisor) state.broker.reset();
  state.supervisor.reset();
  state.system.reset();
}

Result<std::shared_ptr<TokenRing>> Launch::State::open_ring(const std::string& name,
                                                            int64_t tokens) const {
  SUTURE_ASSIGN_OR_RETURN(auto ring, TokenRing::create(static_cast<uint32_t>(tokens)));
  SUTURE_RETURN_IF_ERROR(client->publish_ring(name, ring->fd()));
  return ring;
}

std::optional<AnswerReport> Launch::State::take_report() {
  const std::lock_guard lock(mutex);
  return std::exchange(report, {});
}

namespace {

void take_over(AnswerReport report, Answer& answer) {
  answer.reason = report.reason;
  answer.prompt_tokens = report.prompt_tokens;
  answer.figures = std::move(report.figures);
  answer.degraded = std::move(report.degraded);
  answer.spans = std::move(report.spans);
}

}  // namespace

Result<std::vector<int32_t>> Launch::State::tail_of(const AskOptions& asked) {
  const std::lock_guard lock(text_mutex);
  PromptBuilder& prompts = *prepared.prompts;
  if (asked.conversation == 0) return prompts.tail(asked.text);
  const auto found = conversations.find(asked.conversation);
  if (found == conversations.end())
    return fail(ErrorCode::kNotFound,
                fmt::format("there is no conversation {}", asked.conversation), "request");
  std::vector<int32_t> tail = found->second;
  const std::vector<int32_t> turn =
      tail.empty() ? prompts.tail(asked.text) : prompts.next_turn(asked.text);
  tail.insert(tail.end(), turn.begin(), turn.end());
  return tail;
}

// The conversation goes on from what was shown; an answer that was stopped before it began leaves
// no trace.
void Launch::State::remember(uint64_t conversation, std::vector<int32_t> tail, const Answer& answer,
                             std::string_view more_text) {
  const std::lock_guard lock(text_mutex);
  const auto found = conversations.find(conversation);
  const bool said = !ended_early(answer.reason) || !answer.token_ids.empty();
  if (found == conversations.end() || !said) return;
  tail.insert(tail.end(), answer.token_ids.begin(), answer.token_ids.end());
  const std::vector<int32_t> more = prepared.prompts->answer(more_text);
  tail.insert(tail.end(), more.begin(), more.end());
  found->second = std::move(tail);
}

namespace {

Deadline deadline_of(const AskOptions& options) {
  if (options.deadline_seconds == 0) return Deadline::max();
  return deadline_in(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(options.deadline_seconds)));
}

// Why a request should end now, if it should.
std::optional<FinishReason> end_wanted(const std::atomic<bool>& cancelled, Deadline deadline) {
  if (cancelled.load()) return FinishReason::kCancelled;
  if (std::chrono::steady_clock::now() >= deadline) return FinishReason::kDeadline;
  return std::nullopt;
}

Result<Answer> not_admitted(const Error& error, int64_t asked_ns) {
  if (error.code != ErrorCode::kCancelled) return tl::unexpected<Error>(error);
  Answer answer;
  answer.reason = FinishReason::kCancelled;
  answer.waited_seconds = answer.seconds = seconds_since(asked_ns);
  return answer;
}

}  // namespace

Result<Answer> Launch::ask(const AskOptions& options,
                           const std::function<void(std::string_view)>& on_text,
                           const std::atomic<bool>& cancelled) {
  State& state = *state_;
  SUTURE_RETURN_IF_ERROR(validate(options, state.spec.max_seq_len));
  const int64_t asked_ns = monotonic_ns();
  const Deadline deadline = deadline_of(options);
  const uint64_t client = options.client != 0 ? options.client : options.conversation;
  const auto ticket = state.admission->enter(client, deadline, cancelled);
  if (!ticket) return not_admitted(ticket.error(), asked_ns);
  const double waited_seconds = seconds_since(asked_ns);
  SUTURE_ASSIGN_OR_RETURN(std::vector<int32_t> tail, state.tail_of(options));
  const uint64_t request = std::exchange(state.next_request, state.next_request + 2);
  const std::string ring_name = fmt::format("answer/{}", request);
  SUTURE_ASSIGN_OR_RETURN(auto ring, state.open_ring(ring_name, options.max_tokens));

  std::vector<std::string> stops = options.stop;
  stops.insert(stops.end(), state.prepared.stop.begin(), state.prepared.stop.end());
  AnswerReader reader(ring, state.prepared.encodings->tokenizer(), std::move(stops), on_text,
                      asked_ns);
  tell_question(state.coordinator, {request, tail, options.max_tokens, options.sampling, ring_name,
                                    options.conversation});
  bool producing = true;
  std::optional<FinishReason> told;  // why the request was told to end
  std::optional<AnswerReport> report;
  while (!report) {
    if (!told) {
      told = end_wanted(cancelled, deadline);
      if (told) tell_cancel(state.coordinator, request);
    }
    if (producing) {
      producing = reader.read_slice();
    } else {
      std::unique_lock lock(state.mutex);
      state.changed.wait_for(lock, kReportSlice, [&] { return state.report.has_value(); });
    }
    report = state.take_report();
  }
  reader.drain();  // the report may have overtaken the last tokens
  static_cast<void>(state.client->withdraw_ring(ring_name));
  if (report->outcome.failed) return tl::unexpected<Error>(report->outcome.status().error());
  Answer answer;
  reader.finish(answer);
  take_over(std::move(*report), answer);
  answer.waited_seconds = waited_seconds;
  if (answer.reason == FinishReason::kCancelled && told) answer.reason = *told;
  if (reader.stopped()) answer.reason = FinishReason::kStop;
  state.remember(options.conversation, std::move(tail), answer, reader.text_beyond_tokens());
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
  state.conversations[opened.id] = std::move(tail);
  return opened;
}

void Launch::close_conversation(uint64_t id) {
  State& state = *state_;
  const std::lock_guard lock(state.text_mutex);
  if (state.conversations.erase(id) != 0) tell_released(state.coordinator, id);
}

ProcessSnapshot Launch::State::look_at_process(const ModelSpec& model) const {
  ProcessSnapshot process = joining_process(model);
  {
    const std::lock_guard lock(mutex);
    const auto gone = ended.find(model.name);
    if (gone != ended.end()) {
      process.state = ProcessState::kLost;
      process.why = gone->second;
      return process;
    }
    if (!joined.contains(model.name)) return process;
  }
  process.pid = supervisor ? supervisor->pid_of(model.name) : 0;
  if (const auto slab = client->slab(model.name)) look_at_joined((*slab)->control(), process);
  return process;
}

LaunchSnapshot Launch::snapshot() const {
  LaunchSnapshot snapshot;
  snapshot.time_ns = monotonic_ns();
  snapshot.started_ns = state_->started_ns;
  const AdmissionCounts counts = state_->admission->counts();
  snapshot.requests = counts.running + counts.waiting;
  snapshot.waiting = counts.waiting;
  for (const ModelSpec& model : state_->spec.models)
    snapshot.processes.push_back(state_->look_at_process(model));
  return snapshot;
}

std::vector<pid_t> Launch::pids() const {
  return state_->supervisor ? state_->supervisor->pids() : std::vector<pid_t>();
}

}  // namespace suture
