#include "actors/worker.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <caf/all.hpp>
#include <caf/openssl/all.hpp>
#include <cerrno>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "actors/caf_system.h"
#include "actors/coordinator_actor.h"
#include "actors/model_actor.h"
#include "actors/worker_ticket.h"

namespace suture {
namespace {

// With its launcher gone nobody needs this process, whatever it is doing.
[[noreturn]] void leave() { ::_exit(0); }

// Nothing of a half-done step is worth keeping, and the launcher starts a fresh process.
[[noreturn]] void out_of_memory() {
  constexpr std::string_view kText = "error: out of memory\n";
  static_cast<void>(::write(STDERR_FILENO, kText.data(), kText.size()));
  ::_exit(kExitOutOfMemory);
}

// However the launcher ends, and even if this process is stopped then.
Status die_with(pid_t launcher) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
    return fail_errno("cannot ask to be ended with the launcher", errno, "worker");
  if (::getppid() != launcher) return fail(ErrorCode::kClosed, "the launcher is gone", "worker");
  return {};
}

Result<caf::actor> find_coordinator(caf::actor_system& system, uint16_t port) {
  auto coordinator = caf::openssl::remote_actor(system, "127.0.0.1", port);
  if (!coordinator)
    return fail(ErrorCode::kIo,
                "cannot reach the coordinator: " + system.render(coordinator.error()), "worker");
  return std::move(*coordinator);
}

Result<std::shared_ptr<ModelService>> load(const WorkerTicket& ticket) {
  const auto connect = [&ticket](const std::string& name) {
    return BrokerClient::connect(ticket.broker_address, ticket.secret, name, leave);
  };
  SUTURE_ASSIGN_OR_RETURN(auto service, ModelService::load(ticket.load, connect));
  return std::shared_ptr<ModelService>(std::move(service));
}

}  // namespace

Status run_worker(int ticket_fd) {
  const UniqueFd ticket_owner(ticket_fd);
  SUTURE_ASSIGN_OR_RETURN(const WorkerTicket ticket, read_ticket(ticket_fd));
  std::set_new_handler(out_of_memory);
  SUTURE_RETURN_IF_ERROR(die_with(ticket.launcher));
  const TlsIdentity identity{UniqueFd(ticket.certificate_fd), UniqueFd(ticket.key_fd)};
  CafSystem system(&identity, 1);
  SUTURE_ASSIGN_OR_RETURN(const caf::actor coordinator,
                          find_coordinator(system.get(), ticket.coordinator_port));
  auto service = load(ticket);
  if (!service) {
    caf::scoped_actor self(system.get());
    Joined failed;
    failed.name = ticket.load.name;
    failed.incarnation = ticket.load.incarnation;
    failed.outcome = Outcome::of(tl::unexpected(service.error()));
    tell_joined(coordinator, failed, self);
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
