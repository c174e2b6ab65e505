// The coordinator as an actor: carries messages between its state (actors/coordinator.h), the
// model actors and the thread that asked.
#pragma once

#include <functional>
#include <string>

#include "actors/coordinator.h"

namespace caf {
class actor;
class actor_system;
}  // namespace caf

namespace suture {

struct CoordinatorEvents {
  // All run on the actor's thread.
  //
  // Whether the process takes part: not one that could not load, or that has ended meanwhile.
  std::function<bool(const Joined&)> on_joined;
  std::function<void(AnswerReport)> on_report;
  // The connection to a live process broke; it cannot take part any more.
  std::function<void(const std::string& name, uint64_t incarnation)> on_unreachable;
};

caf::actor spawn_coordinator(caf::actor_system& system, CoordinatorSetup setup,
                             CoordinatorEvents events);

// What the launch tells its coordinator, from any thread.
void tell_question(const caf::actor& coordinator, Question question);
void tell_cancel(const caf::actor& coordinator, uint64_t request);
void tell_released(const caf::actor& coordinator, uint64_t conversation);
void tell_peer_ended(const caf::actor& coordinator, PeerLoss loss);
// What a model process tells it when it has loaded, or could not.
void tell_joined(const caf::actor& coordinator, const Joined& joined, const caf::actor& model);

}  // namespace suture
