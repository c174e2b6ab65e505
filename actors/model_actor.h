// The actor of one model process: a thin shell that hands messages to the engine thread.
#pragma once

#include <memory>

#include "actors/model_service.h"

namespace caf {
class actor;
class actor_system;
}  // namespace caf

namespace suture {

// Warms the model up and tells `launcher`, the coordinator, that it has joined, or why it cannot.
// Then takes ReadRequest, ImportSlabs, DropStream, GenerateRequest and CancelRequest; sends
// ReadOpened, ReadDone and GenerateDone to whoever asked. Quits when `launcher` ends.
caf::actor spawn_model_actor(caf::actor_system& system, std::shared_ptr<ModelService> service,
                             const caf::actor& launcher);

}  // namespace suture
