#include "actors/caf_system.h"

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>
#include <chrono>

#include "actors/messages.h"
#include "actors/tls_error_queue.h"

namespace suture {
namespace {

// A connection is given up only long after the broker would have called the process hung (30 s):
// the broker alone decides who is dead, CAF must not do so earlier because a process is slow.
constexpr std::chrono::seconds kConnectionTimeout{120};
constexpr std::chrono::seconds kHeartbeat{5};

caf::actor_system_config make_config(const TlsIdentity* identity, int scheduler_threads) {
  caf::actor_system_config config;
  config.add_message_type<Outcome>("suture::Outcome");
  config.add_message_type<StreamRef>("suture::StreamRef");
  config.add_message_type<Joined>("suture::Joined");
  config.add_message_type<ProcessFigures>("suture::ProcessFigures");
  config.add_message_type<TraceSpan>("suture::TraceSpan");
  config.add_message_type<ReadRequest>("suture::ReadRequest");
  config.add_message_type<ImportSlabs>("suture::ImportSlabs");
  config.add_message_type<ReadOpened>("suture::ReadOpened");
  config.add_message_type<ReadDone>("suture::ReadDone");
  config.add_message_type<DropStream>("suture::DropStream");
  config.add_message_type<GenerateRequest>("suture::GenerateRequest");
  config.add_message_type<GenerateDone>("suture::GenerateDone");
  config.add_message_type<CancelRequest>("suture::CancelRequest");
  if (scheduler_threads > 0)
    config.set("scheduler.max-threads", static_cast<size_t>(scheduler_threads));
  config.set("scheduler.policy", caf::atom("sharing"));
  if (identity == nullptr) return config;
  keep_tls_errors_apart();
  config.openssl_certificate = identity->certificate_path();
  config.openssl_key = identity->key_path();
  config.openssl_cafile = identity->certificate_path();
  config.load<caf::io::middleman>();
  config.load<caf::openssl::manager>();
  config.set("middleman.heartbeat-interval", caf::timespan(kHeartbeat));
  config.set("middleman.connection-timeout", caf::timespan(kConnectionTimeout));
  return config;
}

}  // namespace

struct CafSystem::State {
  State(const TlsIdentity* identity, int scheduler_threads)
      : config(make_config(identity, scheduler_threads)), system(config) {}

  caf::actor_system_config config;
  caf::actor_system system;
};

CafSystem::CafSystem(const TlsIdentity* identity, int scheduler_threads)
    : state_(std::make_unique<State>(identity, scheduler_threads)) {}

CafSystem::~CafSystem() = default;

caf::actor_system& CafSystem::get() { return state_->system; }

}  // namespace suture
