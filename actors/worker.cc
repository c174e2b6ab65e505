#include "actors/worker.h"

#include <spdlog/spdlog.h>

#include <caf/all.hpp>
#include <caf/openssl/all.hpp>
#include <memory>
#include <utility>

#include "actors/caf_system.h"
#include "actors/coordinator_actor.h"
#include "actors/model_actor.h"
#include "actors/worker_ticket.h"

namespace suture {
namespace {

// With its launcher gone nobody needs this process, whatever it is doing.
[[noreturn]] void leave() { ::_exit(0); }

Result<caf::actor> find_coordinator(caf::actor_system& system, uint16_t port) {
  auto coordinator = caf::openssl::remote_actor(system, "127.0.0.1", port);
  if (!coordinator)
    return fail(ErrorCode::kIo,
                "cannot reach the coordinator: " + system.render(coordinator.error()), "worker");
  return std::move(*coordinator);
}

Result<std::shared_ptr<ModelService>> load(const WorkerTicket& ticket) {
  SUTURE_ASSIGN_OR_RETURN(auto broker, BrokerClient::connect(ticket.broker_address, ticket.secret,
                                                             ticket.load.name, leave));
  SUTURE_ASSIGN_OR_RETURN(auto service, ModelService::load(ticket.load, std::move(broker)));
  return std::shared_ptr<ModelService>(std::move(service));
}

}  // namespace

Status run_worker(int ticket_fd) {
  const UniqueFd ticket_owner(ticket_fd);
  SUTURE_ASSIGN_OR_RETURN(const WorkerTicket ticket, read_ticket(ticket_fd));
  const TlsIdentity identity{UniqueFd(ticket.certificate_fd), UniqueFd(ticket.key_fd)};
  CafSystem system(&identity, 1);
  SUTURE_ASSIGN_OR_RETURN(const caf::actor coordinator,
                          find_coordinator(system.get(), ticket.coordinator_port));
  auto service = load(ticket);
  if (!service) {
    caf::scoped_actor self(system.get());
    tell_joined(coordinator, {ticket.load.name, Outcome::of(tl::unexpected(service.error()))},
                self);
    // The launcher ends this process once it has the reason.
    self->monitor(coordinator);
    self->receive([](const caf::down_msg&) {});
    return tl::unexpected<Error>(service.error());
  }
  spawn_model_actor(system.get(), std::move(*service), coordinator);
  system.get().await_all_actors_done();
  return {};
}

}  // namespace suture
