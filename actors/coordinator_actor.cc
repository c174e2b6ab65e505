#include "actors/coordinator_actor.h"

#include <spdlog/spdlog.h>

#include <caf/all.hpp>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

namespace suture {
namespace {

using QuestionAtom = caf::atom_constant<caf::atom("question")>;
using ReleaseAtom = caf::atom_constant<caf::atom("release")>;
using PeerEndedAtom = caf::atom_constant<caf::atom("ended")>;

struct CoordinatorActorState {
  static inline const char* name = "coordinator";
  std::optional<Coordinator> coordinator;
  CoordinatorEvents events;
  struct Model {
    caf::actor actor;
    uint64_t incarnation = 0;
  };
  std::map<std::string, Model> models;  // by name
};

using CoordinatorActor = caf::stateful_actor<CoordinatorActorState>;

// Sends what the state wants sent, then hands over the reports of requests that have ended.
void carry(CoordinatorActor* self, const std::vector<Outgoing>& messages) {
  for (const auto& [name, message] : messages) {
    const auto to = self->state.models.find(name);
    if (to == self->state.models.end()) continue;  // gone: the state has been told
    const caf::actor& model = to->second.actor;
    std::visit([&](const auto& payload) { self->send(model, payload); }, message);
  }
  while (auto report = self->state.coordinator->take_report())
    self->state.events.on_report(std::move(*report));
}

void join(CoordinatorActor* self, const Joined& joined, const caf::actor& model) {
  if (!self->state.events.on_joined(joined)) return;
  self->monitor(model);
  self->state.models[joined.name] = {model, joined.incarnation};
  carry(self, self->state.coordinator->joined(joined.name));
}

void lose(CoordinatorActor* self, const caf::down_msg& down) {
  for (const auto& [name, model] : self->state.models)
    if (model.actor.address() == down.source) {
      spdlog::info("{}: connection lost: {}", name, self->system().render(down.reason));
      return self->state.events.on_unreachable(name, model.incarnation);
    }
}

caf::behavior coordinator_actor(CoordinatorActor* self,
                                const std::shared_ptr<CoordinatorSetup>& setup,
                                const std::shared_ptr<CoordinatorEvents>& events) {
  self->state.coordinator.emplace(std::move(*setup));
  self->state.events = std::move(*events);
  self->set_down_handler([self](const caf::down_msg& down) { lose(self, down); });
  return {
      [=](const Joined& joined, const caf::actor& model) { join(self, joined, model); },
      [=](QuestionAtom, Question& question) {
        carry(self, self->state.coordinator->ask(std::move(question)));
      },
      [=](const std::string& name, const ReadOpened& opened) {
        carry(self, self->state.coordinator->read_opened(name, opened));
      },
      [=](const std::string& name, ReadDone& done) {
        carry(self, self->state.coordinator->read_done(name, std::move(done)));
      },
      [=](const std::string&, GenerateDone& done) {
        carry(self, self->state.coordinator->generate_done(std::move(done)));
      },
      [=](ReleaseAtom, uint64_t conversation) {
        carry(self, self->state.coordinator->release(conversation));
      },
      [=](PeerEndedAtom, const PeerLoss& loss) {
        self->state.models.erase(loss.name);
        carry(self, self->state.coordinator->peer_ended(loss));
      },
      [=](const CancelRequest& cancel) {
        carry(self, self->state.coordinator->cancel(cancel.request));
      },
  };
}

}  // namespace

caf::actor spawn_coordinator(caf::actor_system& system, CoordinatorSetup setup,
                             CoordinatorEvents events) {
  return system.spawn(coordinator_actor, std::make_shared<CoordinatorSetup>(std::move(setup)),
                      std::make_shared<CoordinatorEvents>(std::move(events)));
}

void tell_question(const caf::actor& coordinator, Question question) {
  caf::anon_send(coordinator, QuestionAtom::value, std::move(question));
}

void tell_cancel(const caf::actor& coordinator, uint64_t request) {
  caf::anon_send(coordinator, CancelRequest{request});
}

void tell_released(const caf::actor& coordinator, uint64_t conversation) {
  caf::anon_send(coordinator, ReleaseAtom::value, conversation);
}

void tell_peer_ended(const caf::actor& coordinator, PeerLoss loss) {
  caf::anon_send(coordinator, PeerEndedAtom::value, std::move(loss));
}

void tell_joined(const caf::actor& coordinator, const Joined& joined, const caf::actor& model) {
  caf::anon_send(coordinator, joined, model);
}

}  // namespace suture
