#include "actors/launch_processes.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <caf/all.hpp>
#include <caf/openssl/all.hpp>
#include <utility>

#include "actors/caf_system.h"
#include "actors/coordinator_actor.h"
#include "actors/launch_secret.h"
#include "actors/model_actor.h"
#include "bus/stream_reader.h"

namespace suture {
namespace {

constexpr const char* kLauncherName = "launcher";

ProjectionLoad projection_load(const ModelSpec& slave, const ModelSpec& other) {
  return {.projector = slave.fusion.projector,
          .other = other.name,
          .other_path = other.path,
          .rope_scaling = other.rope_scaling,
          .rope_length = other.rope_length,
          .force = slave.fusion.force};
}

// In a slave's process.
std::optional<ProjectionLoad> own_projection(const LaunchSpec& spec, const ModelSpec& model) {
  if (!model.projects_in(ProjectorUse::kWriter)) return std::nullopt;
  return projection_load(model, spec.master());
}

// In the master's process.
std::vector<ProjectionLoad> slave_projections(const LaunchSpec& spec, const ModelSpec& model) {
  std::vector<ProjectionLoad> loads;
  if (model.is_slave()) return loads;
  for (const ModelSpec& slave : spec.models)
    if (slave.projects_in(ProjectorUse::kReader)) loads.push_back(projection_load(slave, slave));
  return loads;
}

ModelLoad model_load(const LaunchSpec& spec, const PreparedLaunch& prepared, size_t index,
                     bool trace) {
  const ModelSpec& model = spec.models[index];
  return {.name = model.name,
          .role = model.role,
          .path = model.path,
          .device = model.device,
          .threads = model.threads,
          .max_seq_len = spec.longest_sequence(model),
          .max_sequences = spec.max_sequences,
          .vocabularies = prepared.vocabularies[index],
          .norms_of = model.fusion.norm == NormSource::kMaster ? spec.master().path : "",
          .trace = trace,
          .warm_up = spec.warm_up,
          .rope_scaling = model.rope_scaling,
          .rope_length = model.rope_length,
          .rope_crossing = model.rope_crossing,
          .projection = own_projection(spec, model),
          .slave_projections = slave_projections(spec, model)};
}

// The launcher looks at everybody's figures and offers the rings; the master reads its slaves; a
// slave reads nobody, and nobody one that hands over words. Processes of one file share its
// weights.
RightsByName peer_rights(const LaunchSpec& spec) {
  RightsByName rights;
  PeerRights& launcher = rights[kLauncherName];
  launcher.publishes_rings = true;
  for (const ModelSpec& model : spec.models) {
    launcher.reads.insert(model.name);
    rights[model.name].opens_rings = true;
    rights[model.name].shares_blobs = true;
    if (model.role == Role::kMaster || model.hands_over()) continue;
    std::string rows = model.name;
    if (model.projects_in(ProjectorUse::kWriter)) {
      rows = projected_owner(model.name, spec.master().name);
      rights[rows];  // may join
    }
    rights[spec.master().name].reads.insert(std::move(rows));
  }
  return rights;
}

std::vector<std::string> names_of(const LaunchSpec& spec) {
  std::vector<std::string> names;
  for (const ModelSpec& model : spec.models) names.push_back(model.name);
  return names;
}

RestartOptions restart_options(const LaunchSpec& spec, const LaunchOptions& options) {
  RestartOptions restarts = options.restarts;
  restarts.tries = spec.restarts;
  return restarts;
}

}  // namespace

struct LaunchProcesses::Actors {
  explicit Actors(const TlsIdentity* identity) : system(identity, 0) {}

  CafSystem system;
  caf::actor coordinator;
};

LaunchProcesses::LaunchProcesses(const LaunchSpec& spec, const LaunchOptions& options,
                                 PreparedLaunch& prepared, Events events)
    : spec_(spec),
      options_(options),
      events_(std::move(events)),
      prepared_(prepared),
      membership_(names_of(spec), restart_options(spec, options)) {
  for (size_t i = 0; i < spec_.models.size(); ++i)
    loads_[spec_.models[i].name] = model_load(spec_, prepared, i, options.trace);
}

LaunchProcesses::~LaunchProcesses() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (actors_) caf::anon_send_exit(actors_->coordinator, caf::exit_reason::user_shutdown);
  // Workers end when their connection to the broker closes; in-process models with the actors, and
  // they need the broker until then.
  if (supervisor_) broker_.reset();
  supervisor_.reset();
  actors_.reset();
}

Status LaunchProcesses::start() {
  const bool processes = spec_.placement == Placement::kProcesses;
  if (processes) {
    SUTURE_ASSIGN_OR_RETURN(TlsIdentity identity, TlsIdentity::create());
    identity_.emplace(std::move(identity));
  }
  actors_ = std::make_unique<Actors>(identity_ ? &*identity_ : nullptr);
  start_coordinator(std::move(prepared_.setup));
  SUTURE_RETURN_IF_ERROR(start_broker());
  if (!processes) {
    SUTURE_RETURN_IF_ERROR(start_in_process());
    return wait_until_joined();
  }
  SUTURE_RETURN_IF_ERROR(publish_coordinator());
  supervisor_ =
      std::make_unique<Supervisor>(options_.program, *identity_, [this](const WorkerExit& exit) {
        std::optional<ProcessEnd> end;
        {
          const std::lock_guard lock(mutex_);
          end = membership_.exited(exit, Membership::Clock::now());
        }
        note_end(end);
      });
  for (const ModelSpec& model : spec_.models) start_process(model.name, {});
  return wait_until_joined();
}

Status LaunchProcesses::start_broker() {
  SUTURE_ASSIGN_OR_RETURN(secret_, random_launch_secret());
  BrokerOptions broker;
  broker.secret = secret_;
  broker.rights = peer_rights(spec_);
  broker.hung_after = spec_.hung_after;
  broker.on_peer_joined = [this](PeerId peer, const std::string& name, pid_t pid) {
    if (!loads_.contains(name)) return;  // the launcher, or a process's second connection
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
  SUTURE_ASSIGN_OR_RETURN(client_,
                          BrokerClient::connect(broker_->address(), secret_, kLauncherName));
  return {};
}

void LaunchProcesses::start_coordinator(CoordinatorSetup setup) {
  CoordinatorEvents events;
  events.on_joined = [this](const Joined& joined) { return note_joined(joined); };
  events.on_report = events_.on_report;
  // A live process that cannot be told anything any more is of no use: its end is reported.
  events.on_unreachable = [this](const std::string& name, uint64_t incarnation) {
    kill(name, incarnation);
  };
  actors_->coordinator =
      spawn_coordinator(actors_->system.get(), std::move(setup), std::move(events));
}

Status LaunchProcesses::publish_coordinator() {
  const auto port = caf::openssl::publish(actors_->coordinator, 0, "127.0.0.1");
  if (!port)
    return fail(ErrorCode::kIo,
                "cannot listen on 127.0.0.1: " + actors_->system.get().render(port.error()),
                "launch");
  port_ = *port;
  return {};
}

// Locked as a whole, as kill(): the destructor lets go of the supervisor once it has said so.
void LaunchProcesses::start_process(const std::string& name, std::chrono::milliseconds delay) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  WorkerTicket ticket;
  ticket.broker_address = broker_->address();
  ticket.secret = secret_;
  ticket.coordinator_port = port_;
  ticket.load = loads_.at(name);
  ticket.load.incarnation = membership_.begin(name);
  supervisor_->start(std::move(ticket), delay);
}

void LaunchProcesses::kill(const std::string& name, uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  if (!stopping_ && supervisor_) supervisor_->kill(name, incarnation);
}

Status LaunchProcesses::start_in_process() {
  for (auto& [name, load] : loads_) {
    {
      const std::lock_guard lock(mutex_);
      load.incarnation = membership_.begin(name);
    }
    const auto connect = [this](const std::string& peer) {
      return BrokerClient::connect(broker_->address(), secret_, peer);
    };
    SUTURE_ASSIGN_OR_RETURN(auto service, ModelService::load(load, connect));
    spawn_model_actor(actors_->system.get(), std::shared_ptr<ModelService>(std::move(service)),
                      actors_->coordinator);
  }
  return {};
}

Status LaunchProcesses::wait_until_joined() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return membership_.start_failure() || membership_.complete(); });
  if (!membership_.complete()) return tl::unexpected<Error>(*membership_.start_failure());
  return {};
}

// On the coordinator's thread, before it takes the process in.
bool LaunchProcesses::note_joined(const Joined& joined) {
  bool known = false;
  {
    const std::lock_guard lock(mutex_);
    known = !stopping_ && membership_.joined(joined, Membership::Clock::now());
  }
  if (!known) return false;
  changed_.notify_all();
  if (joined.outcome.failed) {
    // Its end is reported, with this as the reason.
    kill(joined.name, joined.incarnation);
    return false;
  }
  if (!options_.on_progress) return true;
  std::string line = fmt::format("{}: loaded in {:.1f} s", joined.name, joined.load_seconds);
  if (joined.warm_up_seconds != 0)
    line += fmt::format(", warmed up in {:.1f} s", joined.warm_up_seconds);
  options_.on_progress(line);
  return true;
}

void LaunchProcesses::note_end(const std::optional<ProcessEnd>& end) {
  if (!end) return;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
  changed_.notify_all();
  spdlog::warn("{}: {}", end->name, end->story());
  // Before its successor can say anything.
  tell_peer_ended(actors_->coordinator, {end->name, end->restart_in ? end->why : end->story(),
                                         end->restart_in.has_value(), events_.delivered()});
  if (end->restart_in) start_process(end->name, *end->restart_in);
}

void LaunchProcesses::ask(Question question) {
  tell_question(actors_->coordinator, std::move(question));
}

void LaunchProcesses::cancel(uint64_t request) { tell_cancel(actors_->coordinator, request); }

void LaunchProcesses::release(uint64_t conversation) {
  tell_released(actors_->coordinator, conversation);
}

ProcessSnapshot LaunchProcesses::look_at(const ModelSpec& model) const {
  ProcessSnapshot process = joining_process(model);
  {
    const std::lock_guard lock(mutex_);
    const Member& member = membership_.member(model.name);
    process.why = member.why;
    if (member.state == MemberState::kRestarting) process.state = ProcessState::kRestarting;
    if (member.state == MemberState::kGone) process.state = ProcessState::kLost;
    if (member.state != MemberState::kJoined) return process;
  }
  process.pid = supervisor_ ? supervisor_->pid_of(model.name) : 0;
  if (const auto slab = client_->slab(model.name)) look_at_joined((*slab)->control(), process);
  return process;
}

std::vector<pid_t> LaunchProcesses::pids() const {
  return supervisor_ ? supervisor_->pids() : std::vector<pid_t>();
}

}  // namespace suture
