#include "actors/model_processes.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <time.h>

#include <caf/all.hpp>
#include <caf/openssl/all.hpp>
#include <span>
#include <utility>

#include "actors/caf_system.h"
#include "actors/launch_secret.h"

namespace suture {
namespace {

constexpr const char* kOwnName = "reader";
constexpr std::chrono::milliseconds kCancelledWithin{100};
constexpr std::chrono::seconds kSeenWithin{1};
// The bus may show that a process is gone before its parent has heard how it ended.
constexpr std::chrono::seconds kEndKnownWithin{2};

struct ReadingEvents {  // on the actor's thread
  std::function<bool(const Joined&)> on_joined;
  std::function<void(const ReadOpened&)> on_opened;
  std::function<void(ReadDone)> on_done;
};

// Passes on what processes are to be told, and what they say.
struct ReadingActorState {
  static inline const char* name = "reading";
  ReadingEvents events;
  std::map<std::string, caf::actor> models;  // by process
};

using ReadingActor = caf::stateful_actor<ReadingActorState>;

template <typename Message>
void pass_on(ReadingActor* self, const std::string& process, Message message) {
  const auto to = self->state.models.find(process);
  // One that is gone: whoever waits for it is told so by others.
  if (to != self->state.models.end()) self->send(to->second, std::move(message));
}

caf::behavior reading_actor(ReadingActor* self, const std::shared_ptr<ReadingEvents>& events) {
  self->state.events = std::move(*events);
  return {
      [=](const Joined& joined, const caf::actor& model) {
        if (self->state.events.on_joined(joined)) self->state.models[joined.name] = model;
      },
      [=](const std::string& process, ReadRequest& request) {
        pass_on(self, process, std::move(request));
      },
      [=](const std::string& process, const DropStream& drop) { pass_on(self, process, drop); },
      [=](const std::string&, const ReadOpened& opened) { self->state.events.on_opened(opened); },
      [=](const std::string&, ReadDone& done) { self->state.events.on_done(std::move(done)); },
  };
}

std::vector<std::string> names_of(const std::vector<ModelLoad>& loads) {
  std::vector<std::string> names;
  for (const ModelLoad& load : loads) names.push_back(load.name);
  return names;
}

// Everybody's K/V is for us alone; processes of one file share its weights.
RightsByName peer_rights(const std::vector<ModelLoad>& loads) {
  RightsByName rights;
  for (const ModelLoad& load : loads) {
    rights[kOwnName].reads.insert(load.name);
    rights[load.name].shares_blobs = true;
  }
  return rights;
}

Result<StreamInfo> decode(const StreamRef& stream) {
  return decode_stream_info(std::as_bytes(std::span(stream.info)));
}

}  // namespace

struct ModelProcesses::Actors {
  explicit Actors(const TlsIdentity& identity) : system(&identity, 0) {}

  CafSystem system;
  caf::actor reading;
};

Result<std::unique_ptr<ModelProcesses>> ModelProcesses::start(std::vector<ModelLoad> loads,
                                                              ModelProcessesOptions options) {
  std::unique_ptr<ModelProcesses> processes(
      new ModelProcesses(std::move(loads), std::move(options)));
  SUTURE_RETURN_IF_ERROR(processes->start_all());
  return processes;
}

ModelProcesses::ModelProcesses(std::vector<ModelLoad> loads, ModelProcessesOptions options)
    : loads_(std::move(loads)),
      options_(std::move(options)),
      membership_(names_of(loads_), RestartOptions{.tries = 0}) {}

ModelProcesses::~ModelProcesses() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (actors_) caf::anon_send_exit(actors_->reading, caf::exit_reason::user_shutdown);
  // Processes end when their connection to the broker closes.
  client_.reset();
  broker_.reset();
  supervisor_.reset();
  actors_.reset();
}

Status ModelProcesses::start_all() {
  SUTURE_ASSIGN_OR_RETURN(TlsIdentity identity, TlsIdentity::create());
  identity_.emplace(std::move(identity));
  actors_ = std::make_unique<Actors>(*identity_);
  SUTURE_RETURN_IF_ERROR(start_broker());
  SUTURE_RETURN_IF_ERROR(publish_actor());
  supervisor_ =
      std::make_unique<Supervisor>(options_.program, *identity_, [this](const WorkerExit& exit) {
        std::optional<ProcessEnd> end;
        {
          const std::lock_guard lock(mutex_);
          end = membership_.exited(exit, Membership::Clock::now());
        }
        note_end(end);
      });
  for (ModelLoad& load : loads_) {
    WorkerTicket ticket;
    ticket.broker_address = broker_->address();
    ticket.secret = secret_;
    ticket.coordinator_port = port_;
    {
      const std::lock_guard lock(mutex_);
      load.incarnation = membership_.begin(load.name);
    }
    ticket.load = load;
    supervisor_->start(std::move(ticket));
  }
  return wait_until_joined();
}

Status ModelProcesses::start_broker() {
  SUTURE_ASSIGN_OR_RETURN(secret_, random_launch_secret());
  BrokerOptions broker;
  broker.secret = secret_;
  broker.rights = peer_rights(loads_);
  broker.hung_after = options_.hung_after;
  broker.on_peer_joined = [this](PeerId peer, const std::string& name, pid_t pid) {
    if (name == kOwnName) return;
    const std::lock_guard lock(mutex_);
    membership_.connected(peer, pid);
  };
  broker.on_peer_end = [this](PeerId peer, const std::string& name, PeerEnd how,
                              const std::string& detail) {
    std::optional<ProcessEnd> end;
    {
      const std::lock_guard lock(mutex_);
      end = membership_.disconnected(peer, name, how, detail, Membership::Clock::now());
    }
    note_end(end);
  };
  SUTURE_ASSIGN_OR_RETURN(broker_, Broker::start(std::move(broker)));
  SUTURE_ASSIGN_OR_RETURN(client_, BrokerClient::connect(broker_->address(), secret_, kOwnName));
  return {};
}

Status ModelProcesses::publish_actor() {
  auto events = std::make_shared<ReadingEvents>();
  events->on_joined = [this](const Joined& joined) { return note_joined(joined); };
  events->on_opened = [this](const ReadOpened& opened) { note_opened(opened); };
  events->on_done = [this](ReadDone done) { note_done(std::move(done)); };
  actors_->reading = actors_->system.get().spawn(reading_actor, std::move(events));
  const auto port = caf::openssl::publish(actors_->reading, 0, "127.0.0.1");
  if (!port)
    return fail(ErrorCode::kIo,
                "cannot listen on 127.0.0.1: " + actors_->system.get().render(port.error()),
                "models");
  port_ = *port;
  return {};
}

Status ModelProcesses::wait_until_joined() {
  std::unique_lock lock(mutex_);
  SUTURE_RETURN_IF_ERROR(
      wait_until(lock, [this] { return membership_.start_failure() || membership_.complete(); }));
  if (!membership_.complete()) return tl::unexpected<Error>(*membership_.start_failure());
  return {};
}

template <typename Condition>
Status ModelProcesses::wait_until(std::unique_lock<std::mutex>& lock, const Condition& condition) {
  // A signal handler sets the flag, and can wake nobody.
  while (!changed_.wait_for(lock, kCancelledWithin, condition))
    if (options_.cancelled != nullptr && options_.cancelled->load())
      return fail(ErrorCode::kCancelled, "interrupted", "models");
  return {};
}

bool ModelProcesses::note_joined(const Joined& joined) {
  bool known = false;
  {
    const std::lock_guard lock(mutex_);
    known = !stopping_ && membership_.joined(joined, Membership::Clock::now());
  }
  changed_.notify_all();
  if (!known || joined.outcome.failed) return false;
  if (options_.on_progress)
    options_.on_progress(fmt::format("{}: loaded in {:.1f} s", joined.name, joined.load_seconds));
  return true;
}

void ModelProcesses::note_opened(const ReadOpened& opened) {
  const std::lock_guard lock(mutex_);
  const auto found = readings_.find(opened.key);
  if (found == readings_.end()) return;
  if (!opened.outcome.failed) {
    found->second.stream = opened.stream;
    return;
  }
  found->second.done = ReadDone{.key = opened.key, .outcome = opened.outcome};
  changed_.notify_all();
}

void ModelProcesses::note_done(ReadDone done) {
  const std::lock_guard lock(mutex_);
  const auto found = readings_.find(done.key);
  if (found == readings_.end()) return;
  found->second.done = std::move(done);
  changed_.notify_all();
}

void ModelProcesses::note_end(const std::optional<ProcessEnd>& end) {
  if (!end) return;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    ends_[end->name] = end->story();
  }
  changed_.notify_all();
}

uint64_t ModelProcesses::read(const std::string& process, std::vector<int32_t> token_ids) {
  ReadRequest request;
  request.token_ids = std::move(token_ids);
  request.capacity = std::ssize(request.token_ids);
  {
    const std::lock_guard lock(mutex_);
    request.key = next_key_++;
    readings_[request.key].process = process;
  }
  const uint64_t key = request.key;
  caf::anon_send(actors_->reading, process, std::move(request));
  return key;
}

Result<TextStream> ModelProcesses::wait(uint64_t key) {
  StreamRef stream;
  std::string process;
  SUTURE_ASSIGN_OR_RETURN(ReadDone done, wait_until_read(key, stream, process));
  SUTURE_RETURN_IF_ERROR(done.outcome.status());
  SUTURE_ASSIGN_OR_RETURN(StreamInfo info, decode(stream));
  auto reader = attach(stream, std::ssize(info.token_ids));
  if (!reader) return tl::unexpected<Error>(why_lost(process, std::move(reader.error())));
  return TextStream{key, std::move(info), std::move(*reader), std::move(done.figures)};
}

Result<StreamReader> ModelProcesses::attach(const StreamRef& stream, int64_t tokens) {
  SUTURE_ASSIGN_OR_RETURN(const auto slab, client_->slab(stream.owner));
  SUTURE_ASSIGN_OR_RETURN(StreamReader reader, slab->attach({stream.slot, stream.generation}));
  // The process has said so; what it has committed is for us to see.
  SUTURE_RETURN_IF_ERROR(reader.wait_all(tokens, deadline_in(kSeenWithin)));
  return reader;
}

Error ModelProcesses::why_lost(const std::string& process, Error seen) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kEndKnownWithin, [&] { return ends_.contains(process); });
  const auto end = ends_.find(process);
  return end == ends_.end() ? std::move(seen) : Error{ErrorCode::kLost, end->second, process, ""};
}

Result<ReadDone> ModelProcesses::wait_until_read(uint64_t key, StreamRef& stream,
                                                 std::string& process) {
  std::unique_lock lock(mutex_);
  const auto found = readings_.find(key);
  if (found == readings_.end())
    return fail(ErrorCode::kNotFound, fmt::format("no text {}", key), "models");
  Reading& reading = found->second;
  process = reading.process;
  SUTURE_RETURN_IF_ERROR(
      wait_until(lock, [&] { return reading.done || ends_.contains(reading.process); }));
  if (const auto end = ends_.find(reading.process); end != ends_.end())
    return fail(ErrorCode::kLost, end->second, reading.process);
  if (!reading.done->outcome.failed && !reading.stream)
    return fail(ErrorCode::kCorrupt, "a text was read into no stream", reading.process);
  stream = reading.stream.value_or(StreamRef());
  return *reading.done;
}

void ModelProcesses::drop(uint64_t key) {
  std::string process;
  {
    const std::lock_guard lock(mutex_);
    const auto reading = readings_.extract(key);
    if (reading.empty()) return;
    process = reading.mapped().process;
  }
  caf::anon_send(actors_->reading, process, DropStream{key});
}

double ModelProcesses::cpu_seconds() const {
  double seconds = 0;
  for (const pid_t pid : pids()) {
    clockid_t clock{};
    timespec used{};
    if (::clock_getcpuclockid(pid, &clock) == 0 && ::clock_gettime(clock, &used) == 0)
      seconds += static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
  }
  return seconds;
}

}  // namespace suture
